/* SPDX-License-Identifier: MIT */
#include "cli/run/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"

#include "base/banned.h"

enum { COLUMNS_LEAST = 20 };

void pty_resize(int master, int like, int n_prefix)
{
    struct winsize size = { 0 };

    if (ioctl(like, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return;
    size.ws_col =
        (unsigned short) (size.ws_col > n_prefix + COLUMNS_LEAST ? size.ws_col - n_prefix : COLUMNS_LEAST);
    (void) ioctl(master, TIOCSWINSZ, &size);
}

bool pty_open(int like, int n_prefix, int ends[2])
{
    AUTO(fd_auto) int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios mode;

    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0 ||
        fcntl(master, F_SETFL, O_NONBLOCK) != 0)
        return false;
    AUTO(fd_auto) int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || tcgetattr(slave, &mode) != 0)
        return false;
    mode.c_oflag &= ~(tcflag_t) OPOST;  /* no carriage returns */
    mode.c_lflag &= ~(tcflag_t) (ECHO); /* nobody types there */
    if (tcsetattr(slave, TCSANOW, &mode) != 0)
        return false;
    pty_resize(master, like, n_prefix);
    ends[0] = fd_take(&master);
    ends[1] = fd_take(&slave);
    return true;
}
