// SPDX-License-Identifier: MIT

package dibs

import (
	"context"
	"strings"
	"time"
)

// Find returns a claim of the caller. Its token is known only if it was the selector.
func (c *Client) Find(ctx context.Context, w Which) (claim Claim, err error) {
	err = c.askOne(ctx, w, func(ctx context.Context, to asker, w Which) error {
		claim, err = to.find(ctx, w)
		if err == nil {
			claim.Token = w.Token
		}
		return err
	})
	return claim, err
}

// Release ends a claim and returns how many ended: 0 when there was none, which is no error. A name also ends
// the claims NAME/0, NAME/1, ... of a batch.
func (c *Client) Release(ctx context.Context, w Which) (int, error) { return c.release(ctx, w, false) }

// ReleaseForce also ends a claim of whose holder nothing certain is known.
func (c *Client) ReleaseForce(ctx context.Context, w Which) (int, error) {
	return c.release(ctx, w, true)
}

func (c *Client) release(ctx context.Context, w Which, force bool) (n int, err error) {
	err = c.askOne(ctx, w, func(ctx context.Context, to asker, w Which) error {
		n, err = to.release(ctx, w, force)
		return err
	})
	return n, err
}

// Renew extends a lease: it ends ttl from now. 0 is the length that it had.
func (c *Client) Renew(ctx context.Context, w Which, ttl time.Duration) (claim Claim, err error) {
	err = c.askOne(ctx, w, func(ctx context.Context, to asker, w Which) error {
		claim, err = to.renew(ctx, w, ttl)
		return err
	})
	return claim, err
}

// Transfer hands a claim to another holder. The claim has a new token then; the old one is invalid.
func (c *Client) Transfer(ctx context.Context, w Which, to Holder) (claim Claim, err error) {
	err = c.askOne(ctx, w, func(ctx context.Context, by asker, w Which) error {
		claim, err = by.transfer(ctx, w, to)
		return err
	})
	return claim, err
}

// Assert checks that it is the claim's own holder that listens, and returns its socket. ErrTaken: somebody
// else listens, or nobody does.
func (c *Client) Assert(ctx context.Context, w Which) (socket Socket, err error) {
	err = c.askOne(ctx, w, func(ctx context.Context, to asker, w Which) error {
		socket, err = to.assert(ctx, w)
		return err
	})
	return socket, err
}

func (c *Client) askOne(ctx context.Context, w Which, exchange func(context.Context, asker, Which) error) error {
	to, w, err := c.resolveOne(w)
	if err != nil {
		return err
	}
	return c.ask(ctx, to, func(ctx context.Context) error { return exchange(ctx, to, w) })
}

// Question is a claim that the caller would make. Its zero value is TCP on every address, default pool.
type Question struct {
	Protos    []Proto
	Addresses []string
	Pool      string
}

// Explain tells why a port can be claimed or not, and reserves nothing.
func (c *Client) Explain(ctx context.Context, port uint16, q Question) (report Report, err error) {
	to := c.any()
	err = checkText("pool, address or protocol", append([]string{q.Pool, joinProtos(q.Protos, ",")}, q.Addresses...)...)
	if err == nil {
		err = c.ask(ctx, to, func(ctx context.Context) error {
			report, err = to.explain(ctx, port, q)
			return err
		})
	}
	return report, err
}

// Pools lists the pools and how full they are.
func (c *Client) Pools(ctx context.Context) (pools []Pool, err error) {
	to := c.any()
	err = c.ask(ctx, to, func(ctx context.Context) error {
		pools, err = to.pools(ctx)
		return err
	})
	return pools, err
}

// Principal returns whose claims this process makes, "uid:1000": those of Filter.Principal.
func (c *Client) Principal(ctx context.Context) (principal string, err error) {
	to := c.any()
	err = c.ask(ctx, to, func(ctx context.Context) error {
		principal, err = to.principal(ctx)
		return err
	})
	return principal, err
}

func (c *Client) any() asker {
	if c.daemon != nil {
		return c.daemon
	}
	return c.program
}

// Filter selects claims. Its zero value is every claim of every user.
type Filter struct {
	Prefix    string // whole leading parts of a name: "/shop", or "web" of the project
	Project   string // directory
	Pool      string
	Principal string // "uid:1000"
	Proto     Proto
	Port      uint16
}

// Claims is a list that is read page by page:
//
//	list := client.List(ctx, dibs.Filter{Prefix: "/shop"})
//	for list.Next() {
//		fmt.Println(list.Claim().Port)
//	}
//	err := list.Err()
type Claims struct {
	client *Client
	ctx    context.Context
	to     asker
	filter Filter
	page   []Claim
	next   uint64
	isLast bool
	claim  Claim
	err    error
}

// List returns the claims, without their tokens.
func (c *Client) List(ctx context.Context, f Filter) *Claims {
	to, names, err := c.resolve(f.Prefix)
	if err == nil {
		f.Prefix = names[0]
		err = checkText("filter", f.Project, f.Pool, f.Principal, string(f.Proto))
	}
	return &Claims{client: c, ctx: ctx, to: to, filter: f, err: err}
}

// Next goes to the next claim; false: there is none, or Err has the reason.
func (l *Claims) Next() bool {
	for l.err == nil && len(l.page) == 0 && !l.isLast {
		l.err = l.client.ask(l.ctx, l.to, func(ctx context.Context) (err error) {
			l.page, l.next, err = l.to.page(ctx, l.filter, l.next)
			return err
		})
		l.isLast = l.next == 0
	}
	if l.err != nil || len(l.page) == 0 {
		return false
	}
	l.claim, l.page = l.page[0], l.page[1:]
	return true
}

// Claim returns the claim that Next went to.
func (l *Claims) Claim() Claim { return l.claim }

// Err returns why the list ended early; nil if it did not.
func (l *Claims) Err() error { return l.err }

// Env returns the environment of a role of the manifest, as `dibs run ROLE` would set it: "web", "web/1"; ""
// is that of all roles. Ports that are not claimed yet are claimed and kept. It runs the program.
func (c *Client) Env(ctx context.Context, role string) (map[string]string, error) {
	var args []string
	if err := checkText("role", role); err != nil {
		return nil, err
	}
	if strings.TrimSpace(role) != "" {
		args = []string{"--", role}
	}
	var env map[string]string
	err := c.program.manifest(ctx, &env, "env", args...)
	return env, err
}

// Up makes the claims of the manifest true in one step: all of it, or nothing. It runs the program.
func (c *Client) Up(ctx context.Context) (changes []Change, err error) {
	err = c.program.manifest(ctx, &changes, "up")
	return changes, err
}

// Down ends the claims of the manifest. It runs the program.
func (c *Client) Down(ctx context.Context) (changes []Change, err error) {
	err = c.program.manifest(ctx, &changes, "down")
	return changes, err
}
