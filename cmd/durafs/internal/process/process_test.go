package process

import (
	"os/exec"
	"testing"
)

func TestState(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	both, err := Note(0, cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	child, err := Note(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	want := func(name string, m Mark, want State) {
		t.Helper()
		if got := m.State(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	want("both", both, Alive)
	want("the child", child, Alive)
	want("none", Mark{Machine: child.Machine, Namespace: child.Namespace}, Unknown)
	other := child
	other.Machine = "another"
	want("another boot", other, Unknown)
	other = child
	other.Namespace = "pid:[1]"
	want("another namespace", other, Unknown)
	other = child
	other.Processes = []ID{{child.Processes[0].PID, child.Processes[0].Start + 1}}
	want("another process of that id", other, Dead)

	cmd.Process.Kill()
	for child.State() == Alive { // until the kernel has done it; it is not waited for yet
	}
	want("a child that nobody waited for", child, Dead)
	want("both, of which one has ended", both, Alive)
	cmd.Wait()
	want("a child that was waited for", child, Dead)
	if _, err := Note(cmd.Process.Pid); err == nil {
		t.Error("a process that is not there was noted")
	}
}
