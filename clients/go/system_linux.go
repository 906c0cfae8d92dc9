// SPDX-License-Identifier: MIT

package dibs

import (
	"os"
	"os/exec"
	"syscall"
)

// isOwn reports whether a file belongs to this user or to root: not after su or sudo.
func isOwn(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(stat.Uid) == os.Geteuid() || stat.Uid == 0)
}

// apart keeps the terminal's signals away from the child: a claim must not be left without its answer.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
