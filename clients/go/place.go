// SPDX-License-Identifier: MIT

package dibs

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	adminSocket    = "/run/dibs/admin.sock"
	publicSocket   = "/run/dibs/dibs.sock"
	defaultTimeout = 5 * time.Second
	settingsTime   = 10 * time.Second // for the program to print its settings
)

// Settings that a claim depends on; the daemon gets them with a request.
var carried = []string{"range", "pool", "band", "order", "cooldown", "ttl", "allow-ephemeral", "allow-blocked"}

// settings are those that differ from the defaults, by their names.
type settings map[string]string

// readSettings asks the program, which reads settings files and manifests. Without a program the environment
// alone counts.
func readSettings(p *program) (settings, error) {
	found := settings{}
	if _, err := exec.LookPath(p.name); err != nil {
		for _, name := range append([]string{"socket", "timeout"}, carried...) {
			value := os.Getenv("DIBS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
			if value != "" {
				found[name] = value
			}
		}
		return found, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settingsTime)
	defer cancel()
	var got struct {
		Settings []struct {
			Name   string `json:"name"`
			Value  string `json:"value"`
			Source string `json:"source"`
		} `json:"settings"`
	}
	if err := p.run(ctx, &got, "settings"); err != nil {
		if ctx.Err() != nil {
			return nil, p.tooLate()
		}
		return nil, err
	}
	for _, setting := range got.Settings {
		if setting.Source != "default" {
			found[setting.Name] = setting.Value
		}
	}
	return found, nil
}

func (s settings) timeout() (time.Duration, error) {
	text, isSet := s["timeout"]
	if !isSet {
		return defaultTimeout, nil
	}
	units := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}
	digits := strings.TrimRight(text, "mshd")
	number, err := strconv.ParseUint(digits, 10, 31)
	unit, isKnown := units[text[len(digits):]]
	if err != nil || !isKnown || number == 0 {
		return 0, usage("timeout %s is no time such as 500ms, 10s or 5m", quote(text))
	}
	return time.Duration(number) * unit, nil
}

// forDaemon returns the settings that go with a request.
func (s settings) forDaemon() map[string]string {
	out := map[string]string{}
	for _, name := range carried {
		if value, isSet := s[name]; isSet {
			out[strings.ReplaceAll(name, "-", "_")] = value
		}
	}
	return out
}

// daemon returns the path of the daemon's socket, "" for none, by the rules of the command line. isNamed: the
// path was named, not found.
func (s settings) daemon(dir string) (path string, isNamed bool, err error) {
	named, isSet := s["socket"]
	if !isSet && os.Getenv("DIBS_LEDGER") != "" {
		return "", false, nil // the ledger itself is meant
	}
	if named == "none" {
		return "", true, nil
	}
	if isSet && named != "auto" {
		if !filepath.IsAbs(named) { // as for the program, which runs in this directory
			named = filepath.Join(dir, named)
		}
		if path, err = filepath.Abs(named); err != nil {
			err = usage("socket %s: %v", quote(named), err)
		}
		return path, true, err
	}
	if os.Geteuid() == 0 && isUsable(adminSocket) {
		return adminSocket, false, nil
	}
	if _, err := os.Stat(publicSocket); err == nil {
		return publicSocket, false, nil
	}
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	own := runtime + "/dibs/dibs.sock"
	if strings.HasPrefix(runtime, "/") && isOwn(own) {
		return own, false, nil
	}
	return "", false, nil
}

// isUsable reports whether a socket is there that this process may use: root of a user namespace may see the
// administrators' socket, but not use it.
func isUsable(path string) bool {
	connection, err := net.Dial("unix", path)
	if err == nil {
		connection.Close()
	}
	return !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist)
}
