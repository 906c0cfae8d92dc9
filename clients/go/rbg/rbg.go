// SPDX-License-Identifier: MIT

// Package rbg is a port allocation strategy with the shape of RBG's: a range, AllocateBatch and Release.
//
// Unlike a random choice it remembers: a port that was allocated is given to nobody else who asks dibs, also after a
// restart of the controller, until it is released. The ports are kept claims without a name: what the user has of
// these within the range, or in the pool, counts as allocated.
package rbg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs.dev/go/dibs"
)

const timeLimit = 30 * time.Second // of calls without a context

// Options of a strategy: a range, or a pool of dibs.
type Options struct {
	StartPort int32        // the first port of the range
	PortRange int32        // how many ports it has
	Pool      string       // instead of a range; in a cluster one of scope cluster, which is unique on all hosts
	Protos    []dibs.Proto // one number for all of them; nil: TCP
}

// Allocator may be used by several goroutines.
type Allocator struct {
	client  *dibs.Client
	options Options
	like    dibs.Request
}

// New checks the range, which must lie within 1-65535.
func New(client *dibs.Client, o Options) (*Allocator, error) {
	a := &Allocator{client: client, options: o}
	a.like = dibs.Request{Pool: o.Pool, Protos: o.Protos, Holder: dibs.Keep()}
	isRange := o.StartPort >= 1 && o.PortRange >= 1 && int64(o.StartPort)+int64(o.PortRange)-1 <= 65535
	switch {
	case o.Pool != "" && (o.StartPort != 0 || o.PortRange != 0):
		return nil, refuse("a pool and a range cannot be used together")
	case o.Pool == "" && !isRange:
		return nil, refuse("the range of %d ports from %d is not within 1-65535", o.PortRange, o.StartPort)
	case o.Pool == "":
		a.like.Range = fmt.Sprintf("%d-%d", o.StartPort, o.StartPort+o.PortRange-1)
	}
	return a, nil
}

func refuse(format string, args ...interface{}) error {
	return &dibs.Error{Code: dibs.ErrUsage, Message: fmt.Sprintf(format, args...)}
}

// Strategy has the method Start of an interface whose parameter is a client of Kubernetes, which dibs does not
// need: rbg.Strategy[client.Client]{allocator}.
type Strategy[C any] struct{ *Allocator }

// Start checks that dibs answers.
func (s Strategy[C]) Start(C) error { return s.Allocator.Start() }

// Start checks that dibs answers.
func (a *Allocator) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	_, err := a.client.Pools(ctx)
	return err
}

// AllocateBatch allocates different ports: all of them, or none and an error. Of 0 and below there are none.
func (a *Allocator) AllocateBatch(num int32) ([]int32, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	return a.AllocateBatchContext(ctx, num)
}

// AllocateBatchContext is AllocateBatch with a context. A cancelled call leaves nothing allocated.
func (a *Allocator) AllocateBatchContext(ctx context.Context, num int32) ([]int32, error) {
	ports := []int32{}
	if num <= 0 {
		return ports, nil
	}
	claims, err := a.client.ClaimBatch(ctx, dibs.Batch{Request: a.like, Count: int(num)})
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		ports = append(ports, int32(claim.Port))
	}
	return ports, nil
}

// Release ends the allocation of a port, also one of an earlier process. A port that is not allocated is no error.
func (a *Allocator) Release(port int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	return a.ReleaseContext(ctx, port)
}

// ReleaseContext is Release with a context.
func (a *Allocator) ReleaseContext(ctx context.Context, port int32) error {
	if port < 1 || port > 65535 {
		return nil
	}
	ports, err := a.allocated(ctx, uint16(port))
	if err != nil || len(ports) == 0 {
		return err
	}
	_, err = a.client.Release(ctx, dibs.Which{Port: uint16(port)})
	return err
}

// Allocated lists the ports that are allocated now, for a controller that compares them with its objects.
func (a *Allocator) Allocated(ctx context.Context) ([]int32, error) { return a.allocated(ctx, 0) }

// Restore allocates ports that the controller's objects have, before it allocates others: those that are
// allocated already stay, and those that a lost ledger has forgotten are claimed again, also while their pods run.
// dibs.ErrTaken: somebody else has claimed one of them; the others are restored.
func (a *Allocator) Restore(ctx context.Context, ports []int32) error {
	held, err := a.Allocated(ctx)
	if err != nil {
		return err
	}
	isHeld := map[int32]bool{}
	for _, port := range held {
		isHeld[port] = true
	}
	var taken error
	for _, port := range ports {
		if isHeld[port] || port < 1 || port > 65535 {
			continue
		}
		r := a.like
		r.Range, r.Pool, r.Port = "", "", uint16(port)
		if _, err := a.client.ClaimBound(ctx, r); errors.Is(err, dibs.ErrTaken) {
			taken = err
		} else if err != nil {
			return err
		}
		isHeld[port] = true
	}
	return taken
}

// allocated lists the allocated ports; a port that is not 0 selects that one.
func (a *Allocator) allocated(ctx context.Context, port uint16) ([]int32, error) {
	principal, err := a.client.Principal(ctx)
	if err != nil {
		return nil, err
	}
	ports := []int32{}
	list := a.client.List(ctx, dibs.Filter{Port: port, Principal: principal})
	for list.Next() {
		claim := list.Claim()
		isOurs := claim.Pool == a.options.Pool
		if a.options.Pool == "" {
			isOurs = int32(claim.Port) >= a.options.StartPort && int32(claim.Port)-a.options.StartPort < a.options.PortRange
		}
		if isOurs && claim.Kept && claim.Name == "" {
			ports = append(ports, int32(claim.Port))
		}
	}
	return ports, list.Err()
}
