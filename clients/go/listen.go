// SPDX-License-Identifier: MIT

package dibs

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
)

const listenTries = 8 // ports that other processes take between the claim and our bind

// Sockets is a claim with its sockets: one for each protocol and address.
type Sockets struct {
	Claim     Claim
	Listeners []net.Listener   // TCP
	Packets   []net.PacketConn // UDP
	client    *Client
	to        asker
	closing   sync.Once
	closeErr  error
}

// Holds says which guarantee holds. HoldFD: the port is bound by these sockets, so that no other process gets
// it until they are closed. HoldEnforce: the kernel refuses every bind of others as long as the claim lives.
func (s *Sockets) Holds() Hold {
	if s.Claim.Hold == HoldEnforce {
		return HoldEnforce
	}
	return HoldFD
}

// Close closes the sockets and ends the claim, unless it is kept or was there before. A name that was kept is kept
// without a holder again.
func (s *Sockets) Close() error {
	s.closing.Do(func() {
		for _, listener := range s.Listeners {
			s.noteClose(listener.Close())
		}
		for _, packet := range s.Packets {
			s.noteClose(packet.Close())
		}
		s.giveBack()
	})
	return s.closeErr
}

func (s *Sockets) noteClose(err error) {
	if s.closeErr == nil {
		s.closeErr = err
	}
}

func (s *Sockets) giveBack() {
	end := s.client.end
	switch {
	case s.Claim.WasKept && s.Claim.Holder != nil:
		end = s.client.unhold
	case s.Claim.WasThere, s.Claim.Kept:
		return
	}
	if err := end(s.to, s.Claim); err != nil {
		s.client.warn(err) // it ends with its holder
	}
}

// Listener is a claimed TCP port that listens. Close also ends the claim.
type Listener struct {
	net.Listener
	*Sockets
}

// Close closes the socket and ends the claim, unless it is kept or was there before.
func (l *Listener) Close() error { return l.Sockets.Close() }

// PacketConn is a claimed UDP port that is bound. Close also ends the claim.
type PacketConn struct {
	net.PacketConn
	*Sockets
}

// Close closes the socket and ends the claim, unless it is kept or was there before.
func (p *PacketConn) Close() error { return p.Sockets.Close() }

// Listen claims a TCP port and listens on it. When another process takes the port between the two, it takes
// another port, or returns ErrTaken if the port was required.
func (c *Client) Listen(ctx context.Context, r Request) (*Listener, error) {
	s, err := c.listenOne(ctx, r, TCP)
	if err != nil {
		return nil, err
	}
	return &Listener{s.Listeners[0], s}, nil
}

// ListenPacket claims a UDP port and binds it, as Listen does.
func (c *Client) ListenPacket(ctx context.Context, r Request) (*PacketConn, error) {
	s, err := c.listenOne(ctx, r, UDP)
	if err != nil {
		return nil, err
	}
	return &PacketConn{s.Packets[0], s}, nil
}

func (c *Client) listenOne(ctx context.Context, r Request, proto Proto) (*Sockets, error) {
	if len(r.Protos) == 0 {
		r.Protos = []Proto{proto}
	}
	if len(r.Protos) != 1 || r.Protos[0] != proto {
		return nil, usage("one socket has one protocol: ListenAll takes several")
	}
	s, err := c.ListenAll(ctx, r)
	if err == nil && len(s.Claim.Bindings) != 1 {
		s.Close()
		return nil, usage("one socket has one address, but there are %d: ListenAll takes several", len(s.Claim.Bindings))
	}
	return s, err
}

// ListenAll claims one port for all protocols and addresses of the request, and binds and listens on each.
func (c *Client) ListenAll(ctx context.Context, r Request) (*Sockets, error) {
	to, _, err := c.resolve(r.Name)
	if err != nil {
		return nil, err
	}
	if r.Hold == HoldAuto && r.Holder.kind == 0 {
		r.Hold = HoldFD // recorded in the claim of a process
	}
	for tries := 1; ; tries++ {
		claim, err := c.Claim(ctx, r)
		if err != nil {
			return nil, err
		}
		s := &Sockets{Claim: claim, client: c, to: to}
		if err = s.bind(ctx); err == nil {
			return s, nil
		}
		s.Close()
		var number syscall.Errno
		isTaken := errors.As(err, &number) && number == syscall.EADDRINUSE
		if !isTaken {
			return nil, err
		}
		if claim.WasThere || tries == listenTries {
			return nil, fail(ErrTaken, "port %d is claimed, but another process has bound it: %v; 'dibs who %d' names it",
				claim.Port, err, claim.Port)
		}
	}
}

func (s *Sockets) bind(ctx context.Context) error {
	var config net.ListenConfig
	for _, b := range s.Claim.Bindings {
		host, family := b.Address, "6"
		if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
			family = "4"
		}
		if host == "*" || host == "::" { // both families
			host, family = "", ""
		}
		if s.Claim.Narrowed {
			family = "4"
		}
		address := net.JoinHostPort(host, strconv.Itoa(int(b.Port)))
		switch b.Proto {
		case TCP:
			listener, err := config.Listen(ctx, "tcp"+family, address)
			if err != nil {
				return err
			}
			s.Listeners = append(s.Listeners, listener)
		case UDP:
			packet, err := config.ListenPacket(ctx, "udp"+family, address)
			if err != nil {
				return err
			}
			s.Packets = append(s.Packets, packet)
		default:
			return usage("protocol %s has no socket here", quote(string(b.Proto)))
		}
	}
	return nil
}
