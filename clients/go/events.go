// SPDX-License-Identifier: MIT

package dibs

import (
	"context"
	"errors"
)

// ErrMissed says that events were dropped before they were read, or that the ledger was replaced: list the
// claims, then follow what is new, from Newest on.
var ErrMissed = errors.New("events were missed: list the claims again")

// Events follows the changes of the ledger:
//
//	events := client.Events(ctx, 0)
//	for events.Next() {
//		fmt.Println(events.Event().What, events.Event().Port)
//	}
//	err := events.Err() // of the context, when it has ended
//
// It survives restarts of the daemon. Another process resumes with the number of the last event:
// client.Events(ctx, seq).
type Events struct {
	ctx    context.Context
	to     asker
	seq    uint64
	page   []Event
	event  Event
	err    error
	isLive bool // the number is one of this ledger: events may be waited for
}

// Events returns the events after the number `since`, the oldest first; 0: all that the ledger keeps.
func (c *Client) Events(ctx context.Context, since uint64) *Events {
	return &Events{ctx: ctx, to: c.any(), seq: since}
}

// Newest returns the number of the newest event: with it, Events follows what is new.
func (c *Client) Newest(ctx context.Context) (seq uint64, err error) {
	to := c.any()
	err = c.ask(ctx, to, func(ctx context.Context) error {
		seq, err = to.newest(ctx)
		return err
	})
	return seq, err
}

// Next waits for an event; false: Err has the reason.
func (e *Events) Next() bool {
	for e.err == nil && len(e.page) == 0 {
		e.page, e.err = e.to.events(e.ctx, e.seq, e.isLive)
		e.isLive = true
		if e.ctx.Err() != nil {
			e.err = e.ctx.Err()
		}
	}
	if e.err != nil {
		return false
	}
	e.event, e.page = e.page[0], e.page[1:]
	e.seq = e.event.Seq
	return true
}

// Event returns the event that Next went to.
func (e *Events) Event() Event { return e.event }

// Seq returns the number to resume with.
func (e *Events) Seq() uint64 { return e.seq }

// Err returns why Next returned false.
func (e *Events) Err() error { return e.err }
