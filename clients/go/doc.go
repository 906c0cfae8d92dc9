// SPDX-License-Identifier: MIT

// Package dibs claims network ports that stay with their owner.
//
//	client, err := dibs.New(dibs.Options{})
//	claim, err := client.Claim(ctx, dibs.Request{}) // held by this process until it ends
//
// The client asks the daemon (dibs serve) over its Unix socket. Without a daemon each call runs the program
// dibs with --json: claims, errors and their words are the same. Options.Socket says how the daemon is found.
//
// Errors of dibs are *Error; errors.Is tells their kind:
//
//	if errors.Is(err, dibs.ErrTaken) { ... }
//
// Every call takes a context. When it ends, the call returns its error at once; see Client.Claim for what
// becomes of a claim whose answer nobody waits for.
package dibs
