// SPDX-License-Identifier: MIT

package dibs_test

import (
	"os"
	"path/filepath"
	"testing"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/internal/dibstest"
)

func TestTheDaemonIsFoundByTheRulesOfTheCommandLine(t *testing.T) {
	b := dibstest.New(t, true)
	top := filepath.Dir(b.Dir)
	found := func() string {
		t.Helper()
		c, err := dibs.New(dibs.Options{Dir: b.Dir})
		if err != nil {
			t.Fatal(err)
		}
		return c.Socket()
	}
	ledger := os.Getenv("DIBS_LEDGER")
	t.Setenv("DIBS_SOCKET", "none")
	if path := found(); path != "" {
		t.Fatal(path)
	}
	t.Setenv("DIBS_SOCKET", "")
	if path := found(); path != "" {
		t.Fatal("the ledger is meant, but it asks", path)
	}
	t.Setenv("DIBS_LEDGER", "")
	if _, err := os.Stat("/run/dibs"); err != nil { // a daemon of the system would come first
		if path := found(); path != "" {
			t.Fatal(path)
		}
		own := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "dibs")
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(b.Socket, filepath.Join(own, "dibs.sock")); err != nil {
			t.Fatal(err)
		}
		if path := found(); path != filepath.Join(own, "dibs.sock") {
			t.Fatal(path)
		}
		t.Setenv("DIBS_SOCKET", "auto")
		t.Setenv("DIBS_LEDGER", ledger)
		if path := found(); path != filepath.Join(own, "dibs.sock") {
			t.Fatal(path)
		}
		t.Setenv("DIBS_SOCKET", "")
		t.Setenv("DIBS_LEDGER", "")
	}
	config := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "dibs")
	if err := os.Mkdir(config, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(config, "dibs.yaml")
	if err := os.WriteFile(file, []byte("{\"sock\\x65t\": '"+b.Socket+"', range: 24000-24001}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if path := found(); path != b.Socket {
		t.Fatal(path)
	}
	// The other settings of the file go with the request.
	c := client(b, dibs.Options{})
	if claim := claimed(b)(c.Claim(background, dibs.Request{})); claim.Port != 24000 && claim.Port != 24001 {
		t.Fatal(claim.Port)
	}
	if err := os.WriteFile(file, []byte("sockett: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := dibs.New(dibs.Options{})
	assertCode(b, err, dibs.ErrUsage)
	os.Remove(file)
	t.Setenv("DIBS_SOCKET", "../dibs.sock") // of the client's directory
	if path := found(); path != b.Socket {
		t.Fatal(path)
	}
	// What is named must answer.
	t.Setenv("DIBS_SOCKET", filepath.Join(top, "nothing.sock"))
	c, err = dibs.New(dibs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Claim(background, dibs.Request{})
	assertCode(b, err, dibs.ErrUnavailable)
	t.Setenv("DIBS_SOCKET", b.Socket)
	assertHeld(b, 1)
}

func TestSettingsOfTheEnvironmentCount(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		t.Setenv("DIBS_RANGE", "24100-24101")
		c := client(b, dibs.Options{})
		if claim := claimed(b)(c.Claim(background, dibs.Request{})); claim.Port != 24100 && claim.Port != 24101 {
			t.Fatal(claim.Port)
		}
		if pools := must[[]dibs.Pool](b)(c.Pools(background)); pools[0].Ranges != "24100-24101" {
			t.Fatalf("%+v", pools)
		}
		t.Setenv("DIBS_TIMEOUT", "soon")
		_, err := dibs.New(dibs.Options{})
		assertCode(b, err, dibs.ErrUsage)
	})
}

// A container that has the daemon's socket and nothing else.
func TestADaemonNeedsNoProgram(t *testing.T) {
	b := dibstest.New(t, true)
	t.Setenv("DIBS", "/nowhere/dibs")
	t.Setenv("DIBS_RANGE", "24200-24200")
	c := client(b, dibs.Options{})
	if claim := claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web"})); claim.Port != 24200 {
		t.Fatal(claim.Port)
	}
	_, err := c.Get(background, dibs.Request{Name: "web"})
	assertCode(b, err, dibs.ErrUnavailable)
	_, err = c.Env(background, "web")
	assertCode(b, err, dibs.ErrUnavailable)
	t.Setenv("DIBS_TIMEOUT", "soon")
	_, err = dibs.New(dibs.Options{})
	assertCode(b, err, dibs.ErrUsage)
}

func TestWithoutDaemonAndProgramEveryCallSaysSo(t *testing.T) {
	b := dibstest.New(t, false)
	c := client(b, dibs.Options{Program: "/nowhere/dibs"})
	_, err := c.Claim(background, dibs.Request{})
	assertCode(b, err, dibs.ErrUnavailable)
	strange := client(b, dibs.Options{Program: b.Wrapper(`[ "$1" != settings ] || exec "$DIBS" "$@"; echo hello`)})
	_, err = strange.Claim(background, dibs.Request{})
	assertCode(b, err, dibs.ErrUnavailable)
	broken := client(b, dibs.Options{Program: b.Wrapper(`[ "$1" != settings ] || exec "$DIBS" "$@"; echo "out of luck" >&2; exit 9`)})
	_, err = broken.Claim(background, dibs.Request{})
	assertCode(b, err, dibs.ErrFailure)
}
