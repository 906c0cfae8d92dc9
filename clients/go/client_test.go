// SPDX-License-Identifier: MIT

package dibs_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/internal/dibstest"
)

var background = context.Background()

func TestMain(m *testing.M) {
	os.Exit(dibstest.Main(m, map[string]func([]string){"hold": hold}))
}

// client makes one for the bench; it must decide for the daemon exactly if there is one.
func client(b *dibstest.Bench, options dibs.Options) *dibs.Client {
	b.T.Helper()
	if options.Dir == "" {
		options.Dir = b.Dir
	}
	if options.Warn == nil {
		options.Warn = func(err error) { b.T.Errorf("warned: %v", err) }
	}
	c, err := dibs.New(options)
	if err != nil {
		b.T.Fatal(err)
	}
	if options.Socket == "" && c.Socket() != b.Socket {
		b.T.Fatalf("the client asks %q, not %q", c.Socket(), b.Socket)
	}
	return c
}

func must[V any](b *dibstest.Bench) func(V, error) V {
	return func(v V, err error) V {
		b.T.Helper()
		if err != nil {
			b.T.Fatal(err)
		}
		return v
	}
}

func claimed(b *dibstest.Bench) func(dibs.Claim, error) dibs.Claim { return must[dibs.Claim](b) }

func assertHeld(b *dibstest.Bench, n int) {
	b.T.Helper()
	if held := b.Held(); len(held) != n {
		b.T.Fatalf("%d claims instead of %d: %v", len(held), n, held)
	}
}

// assertCode checks the kind of an error, and that it has a message.
func assertCode(b *dibstest.Bench, err error, code dibs.Code) *dibs.Error {
	b.T.Helper()
	var refusal *dibs.Error
	if !errors.Is(err, code) || !errors.As(err, &refusal) || refusal.Message == "" {
		b.T.Fatalf("error %v, not %v", err, code)
	}
	return refusal
}

func TestAClaimLivesFromItsMakingToItsRelease(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		made := claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web"}))
		if made.Port == 0 || made.Token == "" || made.Name != "shop/web" || made.WasThere || made.Kind != "dynamic" ||
			made.Holder == nil || made.Holder.PID != os.Getpid() || made.Life != dibs.Alive || made.Pool != "default" {
			t.Fatalf("%+v", made)
		}
		if len(made.Bindings) != 1 || made.Bindings[0] != (dibs.Binding{Proto: dibs.TCP, Address: "*", Port: made.Port}) {
			t.Fatalf("%+v", made.Bindings)
		}
		again := claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web"}))
		if again.Port != made.Port || !again.WasThere {
			t.Fatalf("%+v", again)
		}
		for _, w := range []dibs.Which{{Token: made.Token}, {Name: "/shop/web"}, {Port: made.Port}, made.Which()} {
			found := claimed(b)(c.Find(background, w))
			if found.ID != made.ID || found.Token != w.Token {
				t.Fatalf("%+v finds %+v", w, found)
			}
		}
		leased := claimed(b)(c.Transfer(background, dibs.Which{Token: made.Token}, dibs.Lease(time.Hour)))
		if leased.Holder.Kind != "lease" || leased.Holder.TTLMS != 3600000 || leased.Token == made.Token {
			t.Fatalf("%+v", leased)
		}
		renewed := claimed(b)(c.Renew(background, leased.Which(), 2*time.Hour))
		if renewed.Holder.TTLMS != 7200000 {
			t.Fatalf("%+v", renewed.Holder)
		}
		if same := claimed(b)(c.Renew(background, leased.Which(), 0)); same.Holder.TTLMS != 7200000 {
			t.Fatalf("%+v", same.Holder)
		}
		_, err := c.Renew(background, made.Which(), time.Hour)
		assertCode(b, err, dibs.ErrNotFound) // the old token
		if n := must[int](b)(c.Release(background, made.Which())); n != 0 {
			t.Fatalf("an old token ended %d claims", n)
		}
		assertHeld(b, 1)
		if n := must[int](b)(c.Release(background, leased.Which())); n != 1 {
			t.Fatal(n)
		}
		if n := must[int](b)(c.Release(background, leased.Which())); n != 0 {
			t.Fatal(n)
		}
		assertHeld(b, 0)
	})
}
