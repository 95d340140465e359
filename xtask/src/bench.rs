//! Figures against their bounds.
//!
//! A figure is a file below `bench/` with one function, and a line in [`FIGURES`]. Figures are
//! always taken from a release build: a debug build of this program starts one and passes on.

mod clock;
mod start;
mod tidy;

use serde_json::json;

use crate::Failure;
use crate::place::{cargo, succeed};

/// Something measured on this machine, just now.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    value: f64,
    unit: &'static str,
    /// What the value may be at most.
    bound: f64,
}

impl Measured {
    /// How much of the bound is used: 1 is the bound itself, more is too much.
    fn ratio(&self) -> f64 {
        self.value / self.bound
    }
}

/// A name, and how to measure what it stands for.
type Figure = (&'static str, fn() -> Result<Measured, String>);

const FIGURES: &[Figure] = &[("start", start::measure), ("tidy", tidy::measure)];

/// How the figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Table,
    Json,
}

/// Takes the figure that is named, or all.
pub(crate) fn run(options: &[&str]) -> Result<(), Failure> {
    let (name, show) = parse(options)?;
    if cfg!(debug_assertions) {
        let again = ["run", "--quiet", "--release", "--package", "xtask", "--", "bench"];
        return Ok(succeed(&mut cargo(&[&again, options].concat()))?);
    }
    let mut over = Vec::new();
    for (figure, measure) in FIGURES.iter().filter(|(figure, _)| name.is_none_or(|n| n == *figure))
    {
        let measured = measure().map_err(|why| format!("figure `{figure}`: {why}"))?;
        println!("{}", shown(figure, &measured, show));
        if measured.ratio() > 1.0 {
            over.push(*figure);
        }
    }
    if over.is_empty() {
        Ok(())
    } else {
        Err(Failure::Chore(format!("over the bound: {}", over.join(", "))))
    }
}

fn parse<'a>(options: &[&'a str]) -> Result<(Option<&'a str>, Show), Failure> {
    let mut name = None;
    let mut show = Show::Table;
    for &option in options {
        if option == "--json" {
            show = Show::Json;
        } else if name.is_some() || !FIGURES.iter().any(|(figure, _)| *figure == option) {
            let known: Vec<_> = FIGURES.iter().map(|(figure, _)| *figure).collect();
            let message =
                format!("no figure or option `{option}`, there are: {}", known.join(", "));
            return Err(Failure::Usage(message));
        } else {
            name = Some(option);
        }
    }
    Ok((name, show))
}

fn shown(name: &str, measured: &Measured, show: Show) -> String {
    let Measured { value, unit, bound } = *measured;
    let ratio = measured.ratio();
    match show {
        Show::Table => {
            let mark = if ratio > 1.0 { "  over" } else { "" };
            format!(
                "{name:<16}{value:>12.3} {unit:<8} bound {bound:>10.3}  ratio {ratio:>6.2}{mark}"
            )
        }
        Show::Json => {
            json!({ "name": name, "value": value, "unit": unit, "bound": bound, "ratio": ratio })
                .to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Measured = Measured { value: 3.75, unit: "ms", bound: 15.0 };
    const OVER: Measured = Measured { value: 30.0, unit: "ms", bound: 15.0 };

    #[test]
    fn a_ratio_over_one_is_over_the_bound() {
        assert_eq!((WITHIN.ratio(), OVER.ratio()), (0.25, 2.0));
    }

    #[test]
    fn a_row_shows_the_value_with_its_bound() {
        let rows = [shown("start", &WITHIN, Show::Table), shown("start", &OVER, Show::Table)];
        let expected = [
            "start                  3.750 ms       bound     15.000  ratio   0.25",
            "start                 30.000 ms       bound     15.000  ratio   2.00  over",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn json_is_one_object_a_line() {
        let line = shown("start", &WITHIN, Show::Json);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(!line.contains('\n'));
        let expected =
            json!({ "name": "start", "value": 3.75, "unit": "ms", "bound": 15.0, "ratio": 0.25 });
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
