package term

import (
	"fmt"
	"time"
)

// Bytes writes a size for people, in binary units: "0 B", "1.5 KiB", "64 MiB".
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < len("KMGTPE")-1 {
		value /= unit
		prefix++
	}
	format := "%.1f %ciB"
	if value >= 100 || value == float64(int64(value)) {
		format = "%.0f %ciB"
	}
	return fmt.Sprintf(format, value, "KMGTPE"[prefix])
}

// Count writes a number with its noun: "1 row", "2 rows".
func Count[N int | int64 | uint64 | uint32](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Age writes how long something is ago, in its largest unit: "12s", "3m",
// "5h", "9d". What lies ahead, by clocks that differ, is "0s".
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}

// Lasted writes how long something took, to three digits: "1.24s", "12ms".
func Lasted(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.String()
}
