//! Power is cut under real writers on a real file system.
//!
//! An ext4 image is mounted through a loop device, writers append to it and say what was acknowledged;
//! at some moment they are stopped and the image is copied, which is what a disk holds that loses
//! power then. The copy is mounted, its journal replayed, and everything that was acknowledged must be
//! there: events, the artifacts that came with them, the ends of recordings. What a disk does that lies
//! about its own cache is not modelled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use countersign_format::id::Ulid;
use countersign_protocol::Stage;
use countersign_testkit::TestHome;
use countersign_testkit::dice::Dice;
use countersign_testkit::process::{Process, Told};
use rustix::process::{Pid, Signal, kill_process};

use super::place::{Room, Writer, lost, next_writer, opened, said, writer};
use super::{Ending, Order};
use xtask::place::{succeed, target};

/// Cuts where no number is given.
const CUTS: [usize; 2] = [6, 200];
/// The size of the image: small, for it is copied for every cut.
const IMAGE_BYTES: u64 = 12 << 20;
/// Of so many cuts in a hundred each twin must be caught.
const CAUGHT_PERCENT_MIN: usize = 90;
/// What each writer writes: events without end, an artifact with every second, and a recording of its own
/// that is concluded after a few.
const WRITES: [&str; 3] = ["1000000", "artifacts=2", "conclude=5"];

/// A file system in a file, mounted while it lives.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn new(image: &Path, at: &Path) -> Result<Self, String> {
        // Without loop devices, or without the right to use them, this is where it ends.
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "loop"]).arg(image).arg(at);
        succeed(mount.stderr(Stdio::null()))?;
        Ok(Self { at: at.to_owned() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A process that was just killed may hold it for a moment longer.
        for _ in 0..50 {
            let done = Command::new("umount").arg(&self.at).stderr(Stdio::null()).status();
            if done.is_ok_and(|status| status.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// A disk with a workspace on it, of which each cut gets a copy.
struct Rack {
    room: Room,
    home: TestHome,
    cuts: u64,
}

impl Rack {
    /// `None` with the reason where no image can be mounted.
    fn new() -> Result<Result<Self, String>, String> {
        let room = Room::in_memory("power")?;
        let base = room.path("base.img");
        let file = fs::File::create(&base).map_err(said("make an image"))?;
        file.set_len(IMAGE_BYTES).map_err(said("make an image"))?;
        let mut make = Command::new("mkfs.ext4");
        // No work is left for later that would write to the image at its own time.
        make.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(&base);
        if let Err(why) = succeed(make.stdout(Stdio::null()).stderr(Stdio::null())) {
            return Ok(Err(why));
        }
        let (at, aside) = (room.path("disk"), room.path("aside"));
        for dir in [&at, &aside] {
            fs::create_dir_all(dir).map_err(said("make a directory"))?;
        }
        // Made where disks are mounted later, and copied to the first: whoever makes a workspace keeps
        // its files open, and a disk with open files cannot be taken away.
        let home = TestHome::at(&at.join("home"));
        let _mounted = match Mounted::new(&base, &aside) {
            Ok(mounted) => mounted,
            Err(why) => return Ok(Err(why)),
        };
        succeed(Command::new("cp").arg("-a").arg(home.path()).arg(&aside))?;
        Ok(Ok(Self { room, home, cuts: 0 }))
    }

    /// One cut; what was lost, if anything was. The disk that was found is at [`Self::found`] then.
    ///
    /// Each image is a file of its own: a loop device that is not quite gone would be used again for
    /// the same file, with what it still has in memory of the disk before.
    fn cut(&mut self, dice: &mut Dice, twin: Writer) -> Result<Cut, String> {
        self.cuts += 1;
        let image = |what: &str| self.room.path(&format!("{what}-{}.img", self.cuts));
        let (work, found, at) = (image("work"), image("copy"), self.room.path("disk"));
        fs::copy(self.room.path("base.img"), &work).map_err(said("copy the image"))?;
        let mounted = Mounted::new(&work, &at)?;
        let told = self.write(dice, twin, || copy_still(&work, &found))?;
        drop(mounted);
        let sum = |count: fn(&Told) -> usize| told.iter().map(count).sum();
        let mounted = Mounted::new(&found, &at)?;
        let lost = self.look(&told).err();
        drop(mounted);
        fs::remove_file(&work).map_err(said("remove an image"))?;
        fs::rename(&found, self.found()).map_err(said("keep the image"))?;
        Ok(Cut {
            acknowledged: sum(|told| told.purposes.len()),
            artifacts: sum(|told| told.artifacts.len()),
            closed: sum(|told| told.closed.len()),
            lost,
        })
    }

    fn found(&self) -> PathBuf {
        self.room.path("found.img")
    }

    /// Lets writers write until some moment, and has the image copied then.
    fn write(
        &self,
        dice: &mut Dice,
        twin: Writer,
        copy: impl FnOnce() -> Result<(), String>,
    ) -> Result<Vec<Told>, String> {
        let start = |recording: &str, name: usize| {
            let name = name.to_string();
            let arguments: Vec<&str> = std::iter::once(name.as_str()).chain(WRITES).collect();
            writer(&self.home, recording, &arguments, twin)
        };
        let mut first = Process::start(&mut start("new", 0)?);
        first.wait_for_acks(1);
        let Some(recording) = first.told().begun.first().map(Ulid::to_string) else {
            let (status, told) = first.finish();
            return Err(format!(
                "the writer begins nothing, ended with {status}: {:?}",
                told.errors
            ));
        };
        let mut writers = vec![first];
        for name in 0..dice.below(3) {
            // Some write to the same recording, some to one of their own.
            let to = if dice.one_in(2) { "new" } else { recording.as_str() };
            writers.push(Process::start(&mut start(to, name + 1)?));
        }
        let victim = dice.below(writers.len());
        if let Some(victim) = writers.get_mut(victim) {
            victim.wait_for_acks(1 + dice.below(12));
            victim.listen(Duration::from_micros(dice.below(3_000) as u64));
        }
        for writer in &writers {
            stop(writer)?;
        }
        copy()?;
        Ok(writers.into_iter().map(Process::kill).collect())
    }

    /// Looks at the disk as it was found, lets others go on with it, and looks again.
    fn look(&self, told: &[Told]) -> Result<(), String> {
        lost(&self.home, told).map_err(|why| format!("as found: {why}"))?;
        for &id in told.iter().flat_map(|it| &it.begun) {
            self.go_on(id)?;
        }
        let workspace = opened(&self.home)?;
        workspace.reconcile_all().map_err(|error| format!("{error:?}"))?;
        // What is not in its place yet gets there now, and is looked for again.
        let settled = workspace.store().settle_places();
        settled.map_err(|error| format!("artifacts do not get to their places: {error}"))?;
        drop(workspace);
        lost(&self.home, told)
    }

    /// Goes on with a recording as whoever comes next would: writes, or brings its end to an end.
    fn go_on(&self, id: Ulid) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Debug| format!("{id} cannot go on: {error:?}");
        let workspace = opened(&self.home)?;
        let recording = workspace.recording(id).map_err(|error| failed(&error))?;
        let (stage, ended) = recording
            .look(|state| (state.stage.clone(), state.ended))
            .map_err(|error| failed(&error))?;
        match (ended, stage) {
            (Some(_), _) => Ok(()),
            (None, Stage::Open) => next_writer(&self.home, id).map(drop),
            // Whoever ended it was cut off in between.
            (None, _) => {
                let concluded = recording.conclude("This many were enough");
                concluded.map(drop).map_err(|error| failed(&error))
            }
        }
    }
}

/// What writers were told until a cut, and what it took.
struct Cut {
    acknowledged: usize,
    artifacts: usize,
    closed: usize,
    lost: Option<String>,
}

/// Stops a process. In the middle of a system call it stands still after it.
fn stop(process: &Process) -> Result<(), String> {
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw).ok_or("no process")?;
    kill_process(pid, Signal::STOP).map_err(|error| format!("cannot stop a writer: {error}"))
}

/// Copies an image. Where the system wrote to it meanwhile the copy is of no one moment: it can have
/// what a journal was emptied into from before, and the journal from after that. What is still the
/// same once all of it was copied is as it was at that moment. (Times of change are too coarse to
/// tell: a second write within some milliseconds leaves them as they are.)
fn copy_still(from: &Path, to: &Path) -> Result<(), String> {
    for _ in 0..100 {
        let copied = fs::read(from).map_err(said("read the image"))?;
        if fs::read(from).map_err(said("read the image"))? == copied {
            return fs::write(to, copied).map_err(said("copy the image"));
        }
    }
    Err("the image never stands still".to_owned())
}

const TWINS: [(&str, Writer); 2] =
    [("twin without sync", Writer::NoSync), ("no artifact synced", Writer::NoArtifactSync)];

pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let [short, long] = CUTS;
    let (count, deadline) = (order.count(short, long), order.deadline());
    let mut rack = match Rack::new()? {
        Ok(rack) => rack,
        Err(why) => return Ok(Ending::NotRun(format!("no ext4 image can be mounted: {why}"))),
    };
    let mut dice = Dice::new(order.seed);
    let (mut cuts, mut bad) = (0, 0);
    let (mut acknowledged, mut artifacts, mut closed) = (0, 0, 0);
    while cuts < count && !deadline.is_over() {
        let cut = rack.cut(&mut dice, Writer::Sound)?;
        cuts += 1;
        acknowledged += cut.acknowledged;
        artifacts += cut.artifacts;
        closed += cut.closed;
        if let Some(lost) = cut.lost {
            bad += 1;
            let kept = target().join(format!("fire-power-{}-{cuts}.img", order.seed));
            fs::copy(rack.found(), &kept).map_err(said("keep the image"))?;
            println!("  cut {cuts}: {lost}; the disk is kept at {}", kept.display());
        }
    }
    println!("{:<20}{cuts:>8} cuts{acknowledged:>9} acknowledged{bad:>9} bad", "our writer");
    println!("{:<20}{artifacts:>8} artifacts{closed:>9} concluded", "told with that");
    let tries = cuts.clamp(1, count.div_ceil(4).max(10));
    let mut missed = Vec::new();
    for (name, twin) in TWINS {
        let caught = caught(&mut rack, &mut dice, twin, tries)?;
        println!("{name:<20}{tries:>8} cuts{caught:>9} caught");
        if caught * 100 < tries * CAUGHT_PERCENT_MIN {
            missed.push(format!("`{name}` was caught in only {caught} of {tries} cuts"));
        }
    }
    if bad > 0 {
        return Err(format!("{bad} of {cuts} cuts took something that was acknowledged"));
    }
    if missed.is_empty() { Ok(Ending::Passed) } else { Err(missed.join("; ")) }
}

/// Cuts the power of a broken writer; in how many of these cuts the judge noticed.
fn caught(rack: &mut Rack, dice: &mut Dice, twin: Writer, cuts: usize) -> Result<usize, String> {
    let mut caught = 0;
    for _ in 0..cuts {
        // Whoever is told of anything is told of an artifact, so each of them can be caught.
        caught += usize::from(rack.cut(dice, twin)?.lost.is_some());
    }
    Ok(caught)
}
