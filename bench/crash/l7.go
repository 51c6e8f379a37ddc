package crash

import (
	"math/rand/v2"

	"durafs/internal/vfs/simdisk"
)

// rotBits is how many bits of each sector are flipped, one at a time.
const rotBits = 6

// L7 lets what a driver left rot, each kind of damage at each place, after a
// clean end and after a kill. Nothing false may be shown, and nothing that was
// promised may be missing without its damage being named.
func L7(d *Driver, c Config) Report {
	r := newRun(d, c, "L7")
	r.until = (l7Patience + 1) * r.Budget
	if d.Rotten == nil {
		return r.report()
	}
	total := 0
	for _, closes := range []bool{true, false} {
		l := d.first(r.Seed)
		l.Closes = closes
		if err := d.live(l); err != nil {
			r.fail(&Failure{Err: err, Story: []string{"no damage: the driver's first life"}})
			return r.report()
		}
		var all []simdisk.Damage
		base := l.Clone()
		for rot := range base.Damages(r.Seed, rotBits) {
			all = append(all, rot)
		}
		rand.New(rand.NewPCG(r.Seed, 7)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		endsFirst(base, all)
		total += len(all)
		r.each(len(all), func(i int) {
			if r.elapsed() < l7Patience*r.Budget {
				r.rotten(base, l, all[i], closes)
			}
		})
	}
	rep := r.report()
	rep.First, rep.Deep = total, int(r.judged.Load())
	return rep
}

// endsFirst brings the damages of the last bytes of files to the front: of a large
// file not all are tried, and there stands what tells of the rest of it.
func endsFirst(disk *simdisk.Disk, all []simdisk.Damage) {
	n := 0
	for i, rot := range all {
		if info, err := disk.Stat(rot.File); err == nil && rot.Off >= info.Size-simdisk.SectorBytes {
			all[n], all[i] = all[i], all[n]
			n++
		}
	}
}

// l7Patience is how many budgets a driver's damages may take.
const l7Patience = 2

func (r *run) rotten(base *simdisk.Disk, first *Life, rot simdisk.Damage, closes bool) {
	disk := base.Clone()
	disk.Damage(rot)
	l := after(disk.Clone(), 1, r.Seed, first.Promises())
	l.Closes, l.Rot, l.sound = closes, rot, base
	r.visited.Add(1)
	r.judged.Add(1)
	r.lives.Add(1)
	if err := guarded(r.driver.Rotten, l); err != nil {
		story := "the store was closed, and then: " + rot.String()
		if !closes {
			story = "the process was killed, and then: " + rot.String()
		}
		r.fail(&Failure{Err: err, Depth: 1, Promises: first.Promises(), Disk: disk, Story: []string{story}})
	}
}
