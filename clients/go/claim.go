// SPDX-License-Identifier: MIT

package dibs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	batchMax      = 4096
	takeBackTime  = 30 * time.Second // how long a cancelled claim is pursued
	waitPauseMin  = 20 * time.Millisecond
	waitPauseMax  = 500 * time.Millisecond
	idempotentKey = 16  // bytes
	clockStep     = 100 // ms by which two readings of the wall clock may differ
)

// order is a batch whose names are resolved.
type order struct {
	Batch
	names    []string // one for each claim; "" is unnamed
	isLookup bool     // Get: the claim that the name has, or a kept one
	key      string   // of idempotency: repeated, the request gets the same claims
	// What has happened to it; the two goroutines of claimOnce share these.
	isGivenUp  flag // nobody waits for it any more
	isSent     flag // it may have been read
	isRepeated flag // it was sent again after that
}

type flag int32

func (f *flag) set()        { atomic.StoreInt32((*int32)(f), 1) }
func (f *flag) isSet() bool { return atomic.LoadInt32((*int32)(f)) != 0 }

// Claim makes one claim.
//
// When the context ends first, the call returns at once with the error of the context, and the claim is given
// back: the request goes on in the background, for at most half a minute and with the same idempotency key,
// and a claim that it made is released. Options.Warn learns of one that could not be. Close waits for this.
func (c *Client) Claim(ctx context.Context, r Request) (Claim, error) {
	claims, err := c.ClaimBatch(ctx, Batch{Request: r})
	if err != nil {
		return Claim{}, err
	}
	return claims[0], nil
}

// ClaimBound claims a port that a process may have bound already. dibs refuses such a port to a holder that is
// not the process itself; it is then declared: every dynamic choice avoids it.
func (c *Client) ClaimBound(ctx context.Context, r Request) (Claim, error) {
	claim, err := c.Claim(ctx, r)
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Blocker != nil && refusal.Blocker.Relation == "foreign" && r.mode() == Required {
		r.Mode = Declared
		return c.Claim(ctx, r)
	}
	return claim, err
}

// ClaimBatch makes several claims that have all but their names in common: all of them or none. The answer has
// their order. Cancellation is as with Claim.
func (c *Client) ClaimBatch(ctx context.Context, b Batch) ([]Claim, error) {
	names := b.Names
	switch {
	case b.Count < 0 || b.Count > batchMax || len(names) > batchMax:
		return nil, usage("a batch has 1 to %d claims", batchMax)
	case len(names) > 0 && (b.Name != "" || b.Count > 0):
		return nil, usage("Names goes with neither Name nor Count")
	case len(names) > 0:
	case b.Count == 0:
		names = []string{b.Name}
	default:
		for i := 0; i < b.Count; i++ {
			name := ""
			if b.Name != "" {
				name = b.Name + "/" + strconv.Itoa(i)
			}
			names = append(names, name)
		}
	}
	if b.Port != 0 && len(names) > 1 {
		return nil, usage("a port is one number, but %d claims are asked for", len(names))
	}
	if b.Align != 0 && !b.Contiguous {
		return nil, usage("Align goes with Contiguous")
	}
	return c.obtain(ctx, &order{Batch: b}, names)
}

// Get returns the claim of a name, and makes a kept one if there is none. The caller does not become its
// holder. In a project with a manifest the name is a port of the manifest. Holder and Wait are not used.
func (c *Client) Get(ctx context.Context, r Request) (Claim, error) {
	if r.Name == "" {
		return Claim{}, usage("a name cannot be empty")
	}
	if r.mode() == Declared {
		return Claim{}, usage("a name does not get a declared port")
	}
	r.Holder, r.Wait = Keep(), 0
	claims, err := c.obtain(ctx, &order{Batch: Batch{Request: r}, isLookup: true}, []string{r.Name})
	if err != nil {
		return Claim{}, err
	}
	return claims[0], nil
}

func (o *order) check() error {
	if o.Mode != "" && o.Port == 0 {
		return usage("mode %s needs a port", quote(string(o.Mode)))
	}
	switch o.mode() {
	case "", Required, Preferred, Declared:
	default:
		return usage("%s is no mode", quote(string(o.Mode)))
	}
	if o.Pool != "" && o.Range != "" {
		return usage("Pool and Range cannot be used together")
	}
	if o.Holder.pid < 0 || o.Holder.ttl < 0 || o.Wait < 0 || o.Align < 0 {
		return usage("a process, a time or an alignment below 0")
	}
	for _, address := range o.Addresses {
		if address == "" {
			return usage("an address cannot be empty")
		}
	}
	for _, proto := range o.Protos {
		if proto == "" {
			return usage("a protocol cannot be empty")
		}
	}
	return checkText("pool, range, address or protocol",
		append([]string{o.Pool, o.Range, string(o.Hold), joinProtos(o.Protos, ",")}, o.Addresses...)...)
}

// obtain checks and resolves an order, and carries it out, again and again while it may wait.
func (c *Client) obtain(ctx context.Context, o *order, names []string) ([]Claim, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	to, names, err := c.resolve(names...)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(o.Wait)
	for pause := waitPauseMin; ; pause *= 2 {
		attempt := &order{Batch: o.Batch, names: names, isLookup: o.isLookup}
		claims, err := c.claimOnce(ctx, to, attempt)
		left := time.Until(end)
		if !mayWait(err) || left <= 0 {
			return claims, err
		}
		if pause > waitPauseMax {
			pause = waitPauseMax
		}
		if pause > left {
			pause = left
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// mayWait reports whether an error may pass by itself: not that of a name whose claim differs from the request.
func mayWait(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && (refusal.Code == ErrTaken || refusal.Code == ErrExhausted) &&
		(refusal.Blocker == nil || !refusal.Blocker.Differs)
}

type outcome struct {
	claims []Claim
	err    error
}

// claimOnce runs a claim so that its answer is never lost: when nobody waits for it any more, takeBack does.
func (c *Client) claimOnce(ctx context.Context, to asker, o *order) ([]Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	random := make([]byte, idempotentKey)
	if _, err := rand.Read(random); err != nil {
		return nil, fail(ErrFailure, "no random numbers are available: %v", err)
	}
	o.key = hex.EncodeToString(random)
	began := time.Now()
	work, stop := context.WithCancel(context.Background())
	done := make(chan outcome, 1)
	go func() {
		claims, err := to.claim(work, o)
		done <- outcome{claims, err}
	}()
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	var why error
	select {
	case got := <-done:
		stop()
		return got.claims, got.err
	case <-ctx.Done():
		why = ctx.Err()
	case <-timer.C:
		why = to.tooLate()
	}
	o.isGivenUp.set()
	c.background.Add(1)
	go func() {
		defer c.background.Done()
		defer stop()
		c.takeBack(to, o, done, stop, began)
	}()
	return nil, why
}

// takeBack ends the claims of a call that nobody waits for. A claim that was there before stays; if it was kept, it
// is kept without a holder again. What Get made stays, too: it has no holder, and others may have got it since.
func (c *Client) takeBack(to asker, o *order, done <-chan outcome, stop func(), began time.Time) {
	timer := time.NewTimer(takeBackTime)
	defer timer.Stop()
	var got outcome
	select {
	case got = <-done:
	case <-timer.C:
		stop()
		got = <-done
	}
	if o.DryRun || o.isLookup {
		return
	}
	var refusal *Error
	isRefused := errors.As(got.err, &refusal) && refusal.Code != ErrUnavailable
	if got.err != nil && !isRefused && o.isSent.isSet() {
		c.warn(fmt.Errorf("a cancelled claim may have been made, and is not taken back: %w", got.err))
	}
	for _, claim := range got.claims {
		// The answer to a repeated key does not say whether the claim was there: its time does.
		isOld := o.isRepeated.isSet() && claim.CreatedMS < began.UnixMilli()-clockStep
		end := c.end
		if claim.WasThere || isOld {
			// Its time tells whether this call has made the process its holder, or an earlier one.
			if claim.Holder == nil || !claim.Kept || claim.ChangedMS < began.UnixMilli() {
				continue
			}
			end = c.unhold
		}
		if err := end(to, claim); err != nil {
			c.warn(fmt.Errorf("port %d of a cancelled claim is not taken back: %w", claim.Port, err))
		}
	}
}

// end releases a claim.
func (c *Client) end(to asker, claim Claim) error {
	return c.ask(context.Background(), to, func(ctx context.Context) error {
		_, err := to.release(ctx, claim.selector(), false)
		return err
	})
}

// unhold keeps a claim without a holder.
func (c *Client) unhold(to asker, claim Claim) error {
	err := c.ask(context.Background(), to, func(ctx context.Context) error {
		_, err := to.transfer(ctx, claim.selector(), Keep())
		return err
	})
	if errors.Is(err, ErrNotFound) { // it has ended, or has another holder
		return nil
	}
	return err
}

func (c *Client) warn(err error) {
	if c.options.Warn != nil {
		c.options.Warn(err)
	}
}
