//! Figures against their bounds.
//!
//! A figure is a file below `bench/` with one function, and a line in [`FIGURES`]. Its bound is
//! what the machine could do at best, or what the figure may cost, and is measured in the same run.
//! Figures are always taken from a release build.

mod append;
mod bounds;
mod callers;
mod calls;
mod cap;
mod clock;
mod crowd;
mod flow;
mod gate;
mod growth;
mod home;
mod hook;
mod load;
mod long;
mod mcp;
mod open;
mod page;
mod peers;
mod proxy;
mod seal;
mod start;
mod tidy;
mod verify;
mod viewer;
mod work;

pub(crate) use peers::drive;

use std::fmt;

use serde_json::json;

use xtask::Failure;

/// What the value, as a part of its bound, should be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// None: it is told beside others.
    None,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least:.2}"),
            Self::AtMost(most) => write!(f, "<= {most:.2}"),
            Self::None => write!(f, "-"),
        }
    }
}

/// Something measured on this machine, just now.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// What the value is compared with, in the same unit.
    bound: f64,
    target: Target,
}

impl Measured {
    /// The value as a part of its bound.
    fn ratio(&self) -> f64 {
        self.value / self.bound
    }

    /// How it stands to its target, in a word.
    fn mark(&self) -> &'static str {
        match self.target {
            Target::None => "",
            _ if self.is_met() => "met",
            _ => "missed",
        }
    }

    fn is_met(&self) -> bool {
        match self.target {
            Target::AtLeast(least) => self.ratio() >= least,
            Target::AtMost(most) => self.ratio() <= most,
            Target::None => self.ratio().is_finite(),
        }
    }
}

/// A name, and how to measure what it stands for.
type Figure = (&'static str, fn() -> Result<Vec<Measured>, String>);

const FIGURES: &[Figure] = &[
    ("seal", seal::measure),
    ("append-one", append::measure),
    ("append-64", crowd::measure),
    ("growth", growth::measure),
    ("open", open::measure),
    ("calls", calls::measure),
    ("gate", gate::measure),
    ("mcp", mcp::measure),
    ("hook", hook::measure),
    ("proxy", proxy::measure),
    ("verify", verify::measure),
    ("verify-5m", verify::measure_many),
    ("cap", cap::measure),
    ("work", work::measure),
    ("flow", flow::measure),
    ("viewer", viewer::measure),
    ("load", load::measure),
    ("start", start::measure),
    ("tidy", tidy::measure),
];

/// Figures that are taken only by their names: they take long, or repeat another in short.
const ON_REQUEST: &[Figure] = &[("peers", peers::measure), ("load-short", load::measure_short)];

/// How the figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Table,
    Json,
}

/// Takes the figure that is named, or all.
pub(crate) fn run(options: &[&str]) -> Result<(), Failure> {
    if options == ["page"] {
        return verdict(&misses(&page::write()?).collect::<Vec<_>>());
    }
    let (name, show) = parse(options)?;
    if show == Show::Table {
        println!("{}", heading());
    }
    let mut missed = Vec::new();
    let asked = ON_REQUEST.iter().filter(|(figure, _)| name == Some(*figure));
    let others = FIGURES.iter().filter(|(figure, _)| name.is_none_or(|n| n == *figure));
    for (figure, measure) in others.chain(asked) {
        let measured = measure().map_err(|why| format!("figure `{figure}`: {why}"))?;
        for measured in &measured {
            println!("{}", shown(measured, show));
        }
        missed.extend(misses(&measured));
    }
    verdict(&missed)
}

/// Writes a workspace with a closed recording, for whoever wants to look at a long one.
pub(crate) fn write_recording(dir: &str, events: &str) -> Result<(), Failure> {
    let count = events.parse().ok().filter(|&count| count >= 10);
    let count = count.ok_or_else(|| Failure::Usage(format!("`{events}` is no number from 10")))?;
    let dir = std::path::Path::new(dir);
    if dir.exists() {
        return Err(Failure::Chore(format!("`{}` is there already", dir.display())));
    }
    let recording = long::write(dir, count)?;
    println!("{}\nroot {}", recording.events.display(), recording.root);
    Ok(())
}

/// The names of those that do not reach their target.
fn misses(measured: &[Measured]) -> impl Iterator<Item = &'static str> {
    measured.iter().filter(|measured| !measured.is_met()).map(|measured| measured.name)
}

fn verdict(missed: &[&str]) -> Result<(), Failure> {
    if missed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Chore(format!("target missed: {}", missed.join(", "))))
    }
}

fn parse<'a>(options: &[&'a str]) -> Result<(Option<&'a str>, Show), Failure> {
    let mut name = None;
    let mut show = Show::Table;
    for &option in options {
        if option == "--json" {
            show = Show::Json;
        } else if name.is_some() || !known().any(|figure| figure == option) {
            let known: Vec<_> = known().collect();
            let message =
                format!("no figure or option `{option}`, there are: {}", known.join(", "));
            return Err(Failure::Usage(message));
        } else {
            name = Some(option);
        }
    }
    Ok((name, show))
}

/// The names of all figures.
fn known() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().chain(ON_REQUEST).map(|(figure, _)| *figure)
}

fn heading() -> String {
    let (name, value, bound, unit) = ("figure", "value", "bound", "unit");
    let (ratio, target) = ("ratio", "target");
    format!("{name:<14}{value:>12}{bound:>12}  {unit:<13}{ratio:>6}  {target}")
}

fn shown(measured: &Measured, show: Show) -> String {
    let Measured { name, value, unit, bound, target } = *measured;
    let (ratio, met) = (measured.ratio(), measured.is_met());
    match show {
        Show::Table => {
            let (target, mark) = (target.to_string(), measured.mark());
            format!(
                "{name:<14}{value:>12.3}{bound:>12.3}  {unit:<13}{ratio:>6.2}  {target:<8}  {mark}"
            )
        }
        Show::Json => {
            let target = target.to_string();
            json!({
                "name": name, "value": value, "unit": unit, "bound": bound, "ratio": ratio,
                "target": target, "met": met,
            })
            .to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Measured = Measured {
        name: "start",
        value: 3.75,
        unit: "ms",
        bound: 15.0,
        target: Target::AtMost(1.0),
    };
    const LONG: Measured = Measured { value: 30.0, ..SHORT };
    const FAST: Measured = Measured {
        name: "seal",
        value: 45_000.0,
        unit: "events/s",
        bound: 50_000.0,
        target: Target::AtLeast(0.8),
    };
    const SLOW: Measured = Measured { value: 25_000.0, ..FAST };

    #[test]
    fn costs_stay_below_their_target_and_rates_above_it() {
        assert_eq!([SHORT, LONG, FAST, SLOW].map(|m| m.ratio()), [0.25, 2.0, 0.9, 0.5]);
        assert_eq!([SHORT, LONG, FAST, SLOW].map(|m| m.is_met()), [true, false, true, false]);
    }

    #[test]
    fn a_figure_that_misses_its_target_fails_the_chore_by_name() {
        assert!(verdict(&misses(&[SHORT, FAST]).collect::<Vec<_>>()).is_ok());
        let missed: Vec<_> = misses(&[SHORT, SLOW, LONG]).collect();
        let Err(Failure::Chore(message)) = verdict(&missed) else { panic!("{missed:?}") };
        assert_eq!(message, "target missed: seal, start");
    }

    #[test]
    fn a_figure_without_a_number_is_missed() {
        assert!(!Measured { value: f64::NAN, ..FAST }.is_met());
        assert!(!Measured { value: f64::NAN, ..SHORT }.is_met());
    }

    #[test]
    fn the_table_is_aligned_and_says_what_was_missed() {
        let rows = [heading(), shown(&SHORT, Show::Table), shown(&SLOW, Show::Table)];
        let expected = [
            "figure               value       bound  unit          ratio  target",
            "start                3.750      15.000  ms             0.25  <= 1.00   met",
            "seal             25000.000   50000.000  events/s       0.50  >= 0.80   missed",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn json_is_one_object_a_line() {
        let line = shown(&SHORT, Show::Json);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(!line.contains('\n'));
        let expected = json!({
            "name": "start", "value": 3.75, "unit": "ms", "bound": 15.0, "ratio": 0.25,
            "target": "<= 1.00", "met": true,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_name_and_json_may_come_in_any_order() {
        assert!(matches!(parse(&[]), Ok((None, Show::Table))));
        assert!(matches!(parse(&["--json", "start"]), Ok((Some("start"), Show::Json))));
        assert!(matches!(parse(&["start", "--json"]), Ok((Some("start"), Show::Json))));
        assert!(matches!(parse(&["sart"]), Err(Failure::Usage(_))));
        assert!(matches!(parse(&["start", "tidy"]), Err(Failure::Usage(_))));
    }
}
