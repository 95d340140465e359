//! How the page looks. Its hash is in the page's own policy, so no other style counts.

/// The only style of the page.
pub(super) const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1c1e21;--dim:#5c636b;--paper:#fff;--soft:#f4f5f7;--line:#d7dbe0;\
--link:#0b57b8;--good:#116329;--bad:#a40e26;--warn:#8a4b00;--odd:#7b1fa2}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8eb;--dim:#9aa3ad;--paper:#15181c;--soft:#1e2227;\
--line:#363c44;--link:#7ab7ff;--good:#5cc97a;--bad:#ff8591;--warn:#f0b35f;--odd:#d79bf2}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:80rem;background:var(--paper);color:var(--ink);\
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.25rem;margin:2.5rem 0 .5rem;padding-top:.5rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.25rem 0 .25rem}
p{margin:.4rem 0}
a{color:var(--link)}
nav ol{columns:2;padding-left:1.5rem;margin:.5rem 0}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
caption{text-align:left;color:var(--dim);padding:.25rem 0}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);\
overflow-wrap:anywhere}
th{font-weight:600}
td:first-child{white-space:nowrap}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.5rem;margin:1rem 0}
dl div{background:var(--soft);border-radius:6px;padding:.6rem .8rem}
dt{color:var(--dim);font-size:.85rem}
dd{margin:0;font-size:1.35rem;font-weight:600}
pre{margin:.35rem 0;padding:.5rem .6rem;background:var(--soft);border-radius:6px;white-space:pre-wrap;\
overflow-wrap:anywhere;font:12.5px/1.45 ui-monospace,monospace}
code,.id{font-family:ui-monospace,monospace;font-size:.85em;overflow-wrap:anywhere}
.dim{color:var(--dim)}
.good{color:var(--good)}
.bad{color:var(--bad)}
.warn{color:var(--warn)}
.good,.bad,.warn{font-weight:600}
.odd{font:.75em ui-monospace,monospace;color:var(--odd);border:1px solid currentColor;border-radius:3px;\
padding:0 .2em;margin:0 .1em}
.verdict{font-size:1.1rem;padding:.7rem .9rem;border:1px solid currentColor;border-radius:6px}
section{overflow-x:auto}
@media (max-width:40rem){body{padding:1rem}nav ol{columns:1}td:first-child{white-space:normal}}
@media print{body{max-width:none;padding:0;font-size:10pt}a{color:inherit;text-decoration:none}\
tr,dl div{break-inside:avoid}h2,h3{break-after:avoid}pre{border:1px solid var(--line)}}
";

/// SHA-256 of [`STYLE`], as a policy names it.
pub(super) const STYLE_HASH: &str = "R9BrCz1f8pvDl+JMGqBxbj2mbtsozRZ6DBoFbmIuMSs=";

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use countersign_format::hash::Hash;

    use super::*;

    #[test]
    fn the_policy_names_the_hash_of_this_style_and_of_no_other() {
        let hash = |style: &str| {
            base64::engine::general_purpose::STANDARD.encode(Hash::of(style.as_bytes()).as_bytes())
        };
        assert_eq!(hash(STYLE), STYLE_HASH);
        assert_ne!(hash(&STYLE.replace("#fff", "#ffe")), STYLE_HASH);
    }
}
