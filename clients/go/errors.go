// SPDX-License-Identifier: MIT

package dibs

import (
	"fmt"
	"strings"
)

// Code is the kind of an error: the exit code that the command line has for it. Each constant is itself an
// error, for errors.Is:
//
//	if errors.Is(err, dibs.ErrTaken) { ... }
type Code int

const (
	ErrFailure     Code = 1 // any other failure
	ErrUsage       Code = 2 // the request is invalid
	ErrTaken       Code = 3 // the port or the name is held
	ErrExhausted   Code = 4 // no port is left in the pool
	ErrNotFound    Code = 5 // there is no such claim, pool or process
	ErrUnavailable Code = 6 // the ledger, the daemon or the program is unavailable
	ErrDenied      Code = 7 // the caller has no right to do this
)

func (c Code) Error() string {
	texts := [...]string{
		ErrFailure:     "the operation failed",
		ErrUsage:       "the request is malformed",
		ErrTaken:       "held by someone else",
		ErrExhausted:   "no free port left in the pool",
		ErrNotFound:    "not found",
		ErrUnavailable: "the ledger is unavailable",
		ErrDenied:      "not allowed",
	}
	if c < ErrFailure || int(c) >= len(texts) {
		return fmt.Sprintf("exit code %d", int(c))
	}
	return texts[c]
}

// Error is a refusal or failure. Errors of a context are not of this type: they come back as they are.
type Error struct {
	Code    Code
	Message string   // in the words of dibs: what was wanted, the obstacle, and what to do
	Trouble string   // of an unavailable ledger, from a daemon only: locked, damaged, full, ...
	Blocker *Blocker // the obstacle of ErrTaken; nil if there is none

	isKilled bool // a signal ended the program
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the code, so that errors.Is(err, ErrTaken) works.
func (e *Error) Unwrap() error { return e.Code }

// Blocker describes the claim or the process that stands in the way.
type Blocker struct {
	// Relation is same_name, same_holder, own_wildcard, other_holder, foreign (a process without a claim),
	// uses or nat.
	Relation string `json:"relation"`
	Port     uint16 `json:"port"`
	Proto    Proto  `json:"proto"`
	Address  string `json:"address"`
	Name     string `json:"name"`
	PID      int    `json:"pid"` // 0: unknown
	UID      uint32 `json:"uid"`
	Command  string `json:"command"`
	SinceMS  int64  `json:"since_ms"` // wall clock; 0: unknown
	Differs  bool   `json:"differs"`  // the name has a claim with another port, protocol or address
}

// UnmarshalJSON also reads a command that is not UTF-8.
func (b *Blocker) UnmarshalJSON(data []byte) error {
	type plain Blocker
	return unmarshal(data, (*plain)(b), map[string]*string{"command": &b.Command})
}

func fail(code Code, format string, args ...interface{}) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func usage(format string, args ...interface{}) error { return fail(ErrUsage, format, args...) }

// quote makes foreign text fit for a message: no control characters, and not too long.
func quote(text string) string {
	if len(text) > 64 {
		text = strings.ToValidUTF8(text[:64], "") + "..."
	}
	return fmt.Sprintf("%+q", text)
}
