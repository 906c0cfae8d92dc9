// SPDX-License-Identifier: MIT

// Package dcp is an allocator with the shape of DCP's: a port for a protocol ("TCP", "UDP") and an address, allocated,
// reserved and released. Each reservation belongs to one process, this one by default, and ends with it.
//
// An Allocator releases only what it has allocated or reserved itself. One process therefore has one Allocator.
// Port 0 is no port: to reserve or release it does nothing.
package dcp

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	"dibs.dev/go/dibs"
)

// Options of an allocator; the zero value is right for most.
type Options struct {
	Owner int    // pid of the process that holds the reservations; 0: this process
	Range string // to allocate from: "20000-32767"; empty: the default pool
	Pool  string // instead of a range
}

// Allocator may be used by several goroutines.
type Allocator struct {
	client  *dibs.Client
	options Options

	turn  chan struct{} // of the one that reserves or releases, so that all have one order
	mu    sync.Mutex
	owned map[binding]dibs.Claim
}

// binding is one reservation's key. One with several addresses has a key for each.
type binding struct {
	proto   dibs.Proto
	address string
	port    int32
}

// New returns an allocator that asks a client.
func New(client *dibs.Client, options Options) *Allocator {
	return &Allocator{client: client, options: options, turn: make(chan struct{}, 1), owned: map[binding]dibs.Claim{}}
}

// begin waits for the turn of a reservation or release. done gives it to the next.
func (a *Allocator) begin(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Allocator) done() { <-a.turn }

// Allocate chooses a port for the protocol on the address and reserves it. Two calls never return the same port.
// An empty address is localhost.
func (a *Allocator) Allocate(ctx context.Context, protocol, address string) (int32, error) {
	return a.AllocateOn(ctx, protocol, address)
}

// AllocateOn chooses one port that is free on all of the addresses.
func (a *Allocator) AllocateOn(ctx context.Context, protocol string, addresses ...string) (int32, error) {
	r, err := a.request(protocol, addresses)
	if err != nil {
		return 0, err
	}
	r.Range, r.Pool = a.options.Range, a.options.Pool
	claim, err := a.client.Claim(ctx, r)
	if err != nil {
		return 0, err
	}
	a.keep(r, claim)
	return int32(claim.Port), nil
}

// Reserve reserves a port if no process has bound it. It may be called again for a port that this allocator has
// already, which is then probed. dibs.ErrTaken: another owner has it, or a process has bound it; the error says
// which.
func (a *Allocator) Reserve(ctx context.Context, protocol, address string, port int32) error {
	return a.reserve(ctx, protocol, address, port, probe)
}

// ReserveUnprobed reserves a port although a process may have bound it already: that of an endpoint whose server
// runs. A port with a foreign socket is declared: Allocate avoids it, for all owners. dibs.ErrTaken: another
// owner has reserved it.
func (a *Allocator) ReserveUnprobed(ctx context.Context, protocol, address string, port int32) error {
	return a.reserve(ctx, protocol, address, port, nil)
}

func (a *Allocator) reserve(ctx context.Context, protocol, address string, port int32,
	probe func(context.Context, dibs.Request) error) error {
	if port == 0 {
		return nil
	}
	r, err := a.request(protocol, []string{address})
	if err != nil {
		return err
	}
	if port < 0 || port > 65535 {
		return refuse("port " + strconv.Itoa(int(port)) + " is not between 1 and 65535")
	}
	r.Port = uint16(port)
	if err := a.begin(ctx); err != nil {
		return err
	}
	defer a.done()
	a.mu.Lock()
	_, isOwned := a.owned[keys(r)[0]]
	a.mu.Unlock()
	if isOwned && probe == nil {
		return nil
	}
	if isOwned {
		return probe(ctx, r)
	}
	obtain := a.client.Claim
	if probe == nil {
		obtain = a.client.ClaimBound
	}
	claim, err := obtain(ctx, r)
	if err != nil {
		return err
	}
	a.keep(r, claim)
	return nil
}

// probe binds a port that is ours and closes it again: dibs never probes a claimed port.
func probe(ctx context.Context, r dibs.Request) error {
	var config net.ListenConfig
	address := net.JoinHostPort(r.Addresses[0], strconv.Itoa(int(r.Port)))
	var socket interface{ Close() error }
	var err error
	if r.Protos[0] == dibs.UDP {
		socket, err = config.ListenPacket(ctx, "udp", address)
	} else {
		socket, err = config.Listen(ctx, "tcp", address)
	}
	if err != nil {
		return &dibs.Error{Code: dibs.ErrTaken, Message: "port " + strconv.Itoa(int(r.Port)) +
			" is reserved here, but in use: " + err.Error()}
	}
	return socket.Close()
}

// Release ends a reservation of this allocator. That of another owner, or none, is no error and has no effect.
func (a *Allocator) Release(ctx context.Context, protocol, address string, port int32) error {
	if port == 0 {
		return nil
	}
	r, err := a.request(protocol, []string{address})
	if err != nil {
		return err
	}
	r.Port = uint16(port)
	if err := a.begin(ctx); err != nil {
		return err
	}
	defer a.done()
	a.mu.Lock()
	claim, isOwned := a.owned[keys(r)[0]]
	a.mu.Unlock()
	if !isOwned || port < 0 || port > 65535 {
		return nil
	}
	if _, err := a.client.Release(ctx, claim.Which()); err != nil {
		return err // still ours: it may be released again
	}
	a.forget(claim)
	return nil
}

// ReleaseAll ends every reservation of this allocator, as far as it can, and returns how many it could not end.
// Those end with their owner.
func (a *Allocator) ReleaseAll(ctx context.Context) (left int) {
	a.mu.Lock()
	claims := map[string]dibs.Claim{}
	for _, claim := range a.owned {
		claims[claim.Token] = claim
	}
	a.mu.Unlock()
	for _, claim := range claims {
		if _, err := a.client.Release(ctx, claim.Which()); err != nil {
			left++
			continue
		}
		a.forget(claim)
	}
	return left
}

func (a *Allocator) keep(r dibs.Request, claim dibs.Claim) {
	r.Port = claim.Port
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range keys(r) {
		a.owned[key] = claim
	}
}

func (a *Allocator) forget(claim dibs.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, owned := range a.owned {
		if owned.Token == claim.Token {
			delete(a.owned, key)
		}
	}
}

func keys(r dibs.Request) []binding {
	out := make([]binding, len(r.Addresses))
	for i, address := range r.Addresses {
		out[i] = binding{r.Protos[0], address, int32(r.Port)}
	}
	return out
}

func refuse(message string) error { return &dibs.Error{Code: dibs.ErrUsage, Message: message} }

// request makes the request for a protocol on addresses, in their canonical form.
func (a *Allocator) request(protocol string, addresses []string) (dibs.Request, error) {
	r := dibs.Request{Protos: []dibs.Proto{dibs.Proto(strings.ToLower(protocol))}}
	if a.options.Owner != 0 {
		r.Holder = dibs.Process(a.options.Owner)
	}
	if r.Protos[0] != dibs.TCP && r.Protos[0] != dibs.UDP {
		return r, refuse("protocol " + strconv.Quote(protocol) + " is neither TCP nor UDP")
	}
	for _, address := range addresses {
		canonical, err := Canonical(address)
		if err != nil {
			return r, err
		}
		r.Addresses = append(r.Addresses, canonical)
	}
	if len(addresses) == 0 {
		return r, refuse("an address is needed")
	}
	return r, nil
}

// Canonical returns the form in which an address is reserved: "" and "localhost" are 127.0.0.1, or ::1 on a host
// without IPv4; brackets go; an IPv4 address in IPv6 becomes IPv4. Another name than localhost is refused, because
// it would have to be guessed which of its addresses is meant.
func Canonical(address string) (string, error) {
	if address == "" || strings.EqualFold(address, "localhost") {
		if listener, err := net.Listen("tcp4", "127.0.0.1:0"); err == nil {
			listener.Close()
			return "127.0.0.1", nil
		}
		return "::1", nil
	}
	text := address
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	ip := net.ParseIP(text)
	if ip == nil {
		return "", refuse("address " + strconv.Quote(address) + " is neither an IP address nor localhost")
	}
	return ip.String(), nil
}
