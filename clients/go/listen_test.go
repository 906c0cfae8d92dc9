// SPDX-License-Identifier: MIT

package dibs_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/internal/dibstest"
)

// echo sends a byte through a listener.
func echo(t *testing.T, listener net.Listener) {
	t.Helper()
	go func() {
		if connection, err := listener.Accept(); err == nil {
			connection.Write([]byte("x"))
			connection.Close()
		}
	}()
	address := listener.Addr().String()
	connection, err := net.DialTimeout("tcp", strings.Replace(address, "[::]", "localhost", 1), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if n, err := connection.Read(make([]byte, 1)); n != 1 {
		t.Fatal(err)
	}
}

func TestListenClaimsBindsAndSaysWhatHolds(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		for _, address := range []string{"", "127.0.0.1", "::1", "0.0.0.0"} {
			r := dibs.Request{}
			if address != "" {
				r.Addresses = []string{address}
			}
			listener := must[*dibs.Listener](b)(c.Listen(background, r))
			claim := listener.Claim
			if listener.Holds() != dibs.HoldFD || claim.Hold != dibs.HoldFD || int(claim.Port) != listener.Addr().(*net.TCPAddr).Port {
				t.Fatalf("%v %+v", listener.Addr(), claim)
			}
			echo(t, listener)
			if second, err := net.Listen("tcp", listener.Addr().String()); err == nil {
				second.Close()
				t.Fatal("a second listener")
			}
			packet := must[*dibs.PacketConn](b)(c.ListenPacket(background, dibs.Request{Addresses: r.Addresses, Port: claim.Port}))
			if packet.LocalAddr().(*net.UDPAddr).Port != int(claim.Port) {
				t.Fatal(packet.LocalAddr())
			}
			assertHeld(b, 2)
			for _, closer := range []interface{ Close() error }{listener, packet} {
				if err := closer.Close(); err != nil {
					t.Fatal(err)
				}
				closer.Close()
			}
			assertHeld(b, 0)
		}
	})
}

func TestListenOnSeveralAddressesAndProtocols(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		all := must[*dibs.Sockets](b)(c.ListenAll(background, dibs.Request{
			Protos: []dibs.Proto{dibs.TCP, dibs.UDP}, Addresses: []string{"localhost"},
		}))
		if len(all.Listeners) != 2 || len(all.Packets) != 2 {
			t.Fatalf("%+v", all.Claim.Bindings)
		}
		for _, listener := range all.Listeners {
			echo(t, listener)
		}
		all.Close()
		for _, r := range []dibs.Request{
			{Addresses: []string{"localhost"}}, {Protos: []dibs.Proto{dibs.UDP}}, {Protos: []dibs.Proto{dibs.TCP, dibs.UDP}},
		} {
			_, err := c.Listen(background, r)
			assertCode(b, err, dibs.ErrUsage)
		}
		_, err := c.ListenAll(background, dibs.Request{Port: 1, Mode: dibs.Declared, Addresses: []string{"192.0.2.1"}})
		if err == nil {
			t.Fatal("listens on an address that this host does not have")
		}
		assertHeld(b, 0)
	})
}

func TestAKeptClaimSurvivesItsListener(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		kept := claimed(b)(c.Get(background, dibs.Request{Name: "/shop/web"}))
		listener := must[*dibs.Listener](b)(c.Listen(background, dibs.Request{Name: "/shop/web"}))
		if listener.Claim.Port != kept.Port {
			t.Fatalf("%+v", listener.Claim)
		}
		listener.Close()
		assertHeld(b, 1)
		if left := claimed(b)(c.Find(background, dibs.Which{Name: "/shop/web"})); left.Holder != nil || !left.Kept {
			t.Fatalf("%+v", left)
		}
	})
}

// A stranger takes each port between the claim and our bind, twice; the program itself starts it.
func TestListenTakesAnotherPortWhenAStrangerWasFaster(t *testing.T) {
	b := dibstest.New(t, false)
	wrapper := b.Wrapper(`[ "$1" = claim ] || exec "$DIBS" "$@"
answer=$("$DIBS" "$@") || exit
n=$(cat "$TOP/n" 2>/dev/null || echo 0); echo $((n + 1)) >"$TOP/n"
if [ "$n" -lt "$(cat "$TOP/most")" ]; then
    port=$(echo "$answer" | sed 's/.*"port":\([0-9]*\).*/\1/')
    DIBS_TEST_HELPER=listen "$HELPER" "127.0.0.1:$port" >"$TOP/said" 2>&1 </dev/null & echo $! >>"$TOP/pids"
    until grep -q "$port" "$TOP/said"; do sleep 0.01; done
fi
echo "$answer"`)
	t.Cleanup(func() { b.Shell(`for pid in $(cat "$TOP/pids"); do kill -KILL $pid || true; done`) })
	c := client(b, dibs.Options{Program: wrapper})
	b.Shell(`echo 2 >"$TOP/most"`)
	loopback := []string{"127.0.0.1"}
	listener := must[*dibs.Listener](b)(c.Listen(background, dibs.Request{Addresses: loopback, Range: "23000-23002"}))
	echo(t, listener)
	assertHeld(b, 1)
	if n := b.Shell(`cat "$TOP/n"`); n != "3" {
		t.Fatalf("%s claims instead of 3", n)
	}
	// The only port that may be had: the words are those of dibs.
	b.Shell(`echo 9 >"$TOP/most"`)
	_, err := c.Listen(background, dibs.Request{Addresses: loopback, Port: 23100})
	refusal := assertCode(b, err, dibs.ErrTaken)
	if refusal.Blocker == nil || refusal.Blocker.Relation != "foreign" || !strings.Contains(refusal.Message, "23100") {
		t.Fatal(refusal.Message)
	}
	// A name that has its port already, in use by a stranger.
	claim := claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web", Addresses: loopback}))
	_, err = c.Listen(background, dibs.Request{Name: "/shop/web", Addresses: loopback})
	refusal = assertCode(b, err, dibs.ErrTaken)
	if !strings.Contains(refusal.Message, fmt.Sprint(claim.Port)) {
		t.Fatal(refusal.Message)
	}
	assertHeld(b, 2)
}
