// Package process tells whether a process that was noted earlier, maybe by
// another program, is still the same one.
//
// # The idea
//
// A process id alone is soon somebody else's. With the time at which the
// process began, in ticks of this boot of the machine, it is not; and with the
// machine's boot and the namespace of the ids, one that looks from elsewhere
// knows that it cannot know.
package process

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ID is one process: its id, and when it began. The zero ID is none.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks since the machine's boot
}

// Mark is where some processes are, and which.
type Mark struct {
	Machine   string `json:"machine"`   // this boot of it
	Namespace string `json:"namespace"` // of process ids
	Processes []ID   `json:"processes"`
}

// Note marks processes of this machine by their ids, 0 for oneself.
func Note(pids ...int) (Mark, error) {
	m, err := here()
	if err != nil {
		return Mark{}, err
	}
	for _, pid := range pids {
		if pid == 0 {
			pid = os.Getpid()
		}
		start, _, err := stat(pid)
		if err != nil {
			return Mark{}, err
		}
		m.Processes = append(m.Processes, ID{pid, start})
	}
	return m, nil
}

// here is a mark of no process.
func here() (m Mark, err error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return m, err
	}
	m.Machine = strings.TrimSpace(string(b))
	m.Namespace, err = os.Readlink("/proc/self/ns/pid")
	return m, err
}

// State is what is known of processes.
type State int

// The states.
const (
	Unknown State = iota // they may be elsewhere
	Alive                // at least one of them lives
	Dead                 // none of them does
)

// State looks whether the processes still live.
func (m Mark) State() State {
	now, err := here()
	switch {
	case err != nil || m.Machine == "" || len(m.Processes) == 0:
		return Unknown
	case m.Machine != now.Machine:
		// The machine's boot is over, if it is this machine: a store on a file
		// system that several share may be another's.
		return Unknown
	case m.Namespace != now.Namespace:
		return Unknown
	}
	for _, p := range m.Processes {
		start, alive, err := stat(p.PID)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return Unknown
		case alive && start == p.Start:
			return Alive
		}
	}
	return Dead
}

// stat reads when a process began, and whether it has not ended: one that
// nobody has waited for yet does nothing any more.
func stat(pid int) (start uint64, alive bool, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(err, syscall.ESRCH) { // it ended meanwhile
			err = fs.ErrNotExist
		}
		return 0, false, err
	}
	// The second field is a name in brackets, and may have anything in it.
	_, rest, ok := bytes.Cut(b[max(0, bytes.LastIndexByte(b, ')')):], []byte(" "))
	fields := strings.Fields(string(rest))
	const startField = 22 - 3 // of those behind the second
	if !ok || len(fields) <= startField {
		return 0, false, errors.New("process: /proc has no start of a process")
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	return start, fields[0] != "Z" && fields[0] != "X", err
}
