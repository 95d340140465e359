//! Who may speak to the HTTP server at all.
//!
//! Decided from the head of a request alone, before anything of its body is read: that it is meant for
//! this server (a web page that has its name point here sends another `Host`), that no other page
//! sent it, that it carries the token, and that it is not too large.

use std::net::SocketAddr;

use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::token::Token;

/// Bytes of a request's body.
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;

/// What is asked at the door.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    /// The names of this server; none where it may go by any name.
    names: Option<Vec<String>>,
    token: Token,
}

/// Why a request was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    NoHost,
    OtherHost,
    OtherOrigin,
    NoToken,
    WrongToken,
    TooLarge,
}

impl Door {
    /// The door of a server at this address. One that listens on every address cannot know its names.
    pub(crate) fn new(address: SocketAddr, token: Token) -> Self {
        let names = (!address.ip().is_unspecified()).then(|| names_of(address));
        Self { names, token }
    }

    /// Whether a request may do what only the holder of the token may.
    pub(crate) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let host = self.meant_for_us(uri, headers)?;
        self.of_our_page(headers, host)?;
        let offered = only(headers, &AUTHORIZATION).ok_or(Refused::NoToken)?.as_bytes();
        let (scheme, token) = offered.split_at_checked(7).ok_or(Refused::WrongToken)?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") || !self.token.is(token) {
            return Err(Refused::WrongToken);
        }
        // A length that is no number is the HTTP reader's to refuse.
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        match length.and_then(|length| length.parse::<u64>().ok()) {
            Some(length) if length > BODY_BYTES_MAX as u64 => Err(Refused::TooLarge),
            _ => Ok(()),
        }
    }

    /// Whether a request may have what is no secret: it must be meant for this server, and come from
    /// its own page or from a person who follows a link.
    pub(crate) fn admit_to_page(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let host = self.meant_for_us(uri, headers)?;
        let mode = headers.get_all(HeaderName::from_static("sec-fetch-mode"));
        if headers.get(ORIGIN).is_none() && mode.iter().any(|mode| mode == "navigate") {
            return Ok(());
        }
        self.of_our_page(headers, host)
    }

    fn meant_for_us<'h>(
        &self,
        uri: &Uri,
        headers: &'h HeaderMap,
    ) -> Result<&'h HeaderValue, Refused> {
        let host = only(headers, &HOST).ok_or(Refused::NoHost)?;
        let named = uri.authority().map(|authority| authority.as_str().as_bytes());
        if [Some(host.as_bytes()), named].into_iter().flatten().any(|name| !self.is_ours(name)) {
            return Err(Refused::OtherHost);
        }
        Ok(host)
    }

    fn of_our_page(&self, headers: &HeaderMap, host: &HeaderValue) -> Result<(), Refused> {
        if headers.get_all(ORIGIN).iter().any(|origin| !self.is_our_origin(origin, host)) {
            return Err(Refused::OtherOrigin);
        }
        // Browsers say where a request comes from also where they send no `Origin`.
        let site = headers.get_all(HeaderName::from_static("sec-fetch-site"));
        if site.iter().any(|site| site != "same-origin" && site != "none") {
            return Err(Refused::OtherOrigin);
        }
        Ok(())
    }

    fn is_ours(&self, name: &[u8]) -> bool {
        let names = self.names.as_ref();
        names.is_none_or(|names| names.iter().any(|n| n.as_bytes().eq_ignore_ascii_case(name)))
    }

    /// Whether an origin is this server's own. `null`, which pages without an address send, is not.
    fn is_our_origin(&self, origin: &HeaderValue, host: &HeaderValue) -> bool {
        let name = origin.as_bytes().strip_prefix(b"http://");
        name.is_some_and(|name| match self.names {
            Some(_) => self.is_ours(name),
            None => name.eq_ignore_ascii_case(host.as_bytes()),
        })
    }
}

/// The value of a header that is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn names_of(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let mut hosts = vec![SocketAddr::new(address.ip(), port).to_string()];
    if address.ip().is_loopback() {
        hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
    }
    if port == 80 {
        let bare: Vec<String> =
            hosts.iter().filter_map(|host| host.strip_suffix(":80").map(str::to_owned)).collect();
        hosts.extend(bare);
    }
    hosts
}

impl Refused {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::NoHost => StatusCode::BAD_REQUEST,
            Self::OtherHost => StatusCode::MISDIRECTED_REQUEST,
            Self::OtherOrigin => StatusCode::FORBIDDEN,
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NoHost => "the request must have exactly one Host header\n",
            Self::OtherHost => "this server does not go by the name in the Host header\n",
            Self::OtherOrigin => "requests of other web pages are not answered\n",
            Self::NoToken => "the request must have the header: Authorization: Bearer TOKEN\n",
            Self::WrongToken => "this is not the token\n",
            Self::TooLarge => "a request has at most 8 MiB\n",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.reason()).into_response();
        let headers = response.headers_mut();
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn door(address: &str) -> Door {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        fs::write(&file, TOKEN).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        Door::new(address.parse().unwrap(), Token::load_or_make(&file).unwrap())
    }

    fn admit(door: &Door, uri: &str, lines: &[(&str, &str)]) -> Result<(), Refused> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        door.admit(&uri.parse().unwrap(), &headers)
    }

    fn local(host: &str, origin: Option<&str>, authorization: Option<&str>) -> Result<(), Refused> {
        let mut lines = vec![("host", host)];
        lines.extend(origin.map(|origin| ("origin", origin)));
        lines.extend(authorization.map(|value| ("authorization", value)));
        admit(&door("127.0.0.1:7331"), "/mcp", &lines)
    }

    #[test]
    fn every_host_but_the_servers_own_names_is_turned_away() {
        let bearer = format!("Bearer {TOKEN}");
        for host in ["127.0.0.1:7331", "localhost:7331", "LOCALHOST:7331", "[::1]:7331"] {
            assert_eq!(local(host, None, Some(&bearer)), Ok(()), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1.evil.example:7331",
            "localhost.:7331",
            "evil.example",
            "0.0.0.0:7331",
            "2130706433:7331",
            "user@localhost:7331",
            "",
        ] {
            assert_eq!(local(host, None, Some(&bearer)), Err(Refused::OtherHost), "{host}");
        }
    }

    #[test]
    fn every_origin_but_the_servers_own_is_turned_away() {
        let bearer = format!("Bearer {TOKEN}");
        let with = |origin| local("localhost:7331", Some(origin), Some(&bearer));
        assert_eq!(with("http://localhost:7331"), Ok(()));
        for origin in [
            "null",
            "https://localhost:7331",
            "http://localhost:7332",
            "http://localhost",
            "http://localhost:7331.evil.example",
            "https://evil.example",
        ] {
            assert_eq!(with(origin), Err(Refused::OtherOrigin), "{origin}");
        }
        let lines = [
            ("host", "localhost:7331"),
            ("authorization", &bearer),
            ("sec-fetch-site", "cross-site"),
        ];
        assert_eq!(admit(&door("127.0.0.1:7331"), "/", &lines), Err(Refused::OtherOrigin));
    }

    #[test]
    fn only_the_whole_token_opens() {
        let with = |authorization: &str| local("localhost:7331", None, Some(authorization));
        assert_eq!(local("localhost:7331", None, None), Err(Refused::NoToken));
        assert_eq!(with(&format!("bearer {TOKEN}")), Ok(()));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            TOKEN,
            &format!("Basic {TOKEN}"),
            &format!("Bearer {TOKEN}0"),
            &format!("Bearer {}", &TOKEN[1..]),
            &format!("Bearer  {TOKEN}"),
        ] {
            assert_eq!(with(wrong), Err(Refused::WrongToken), "{wrong}");
        }
    }

    #[test]
    fn headers_that_are_there_twice_and_names_in_the_request_line_do_not_help() {
        let (door, bearer) = (door("127.0.0.1:7331"), format!("Bearer {TOKEN}"));
        let host = ("host", "localhost:7331");
        let authorised = ("authorization", bearer.as_str());
        assert_eq!(admit(&door, "/", &[host, host, authorised]), Err(Refused::NoHost));
        assert_eq!(admit(&door, "/", &[authorised]), Err(Refused::NoHost));
        let twice = [host, authorised, authorised];
        assert_eq!(admit(&door, "/", &twice), Err(Refused::NoToken));
        let uri = "http://evil.example/mcp";
        assert_eq!(admit(&door, uri, &[host, authorised]), Err(Refused::OtherHost));
    }

    #[test]
    fn a_large_body_is_turned_away_by_its_length_but_not_before_the_token_is_seen() {
        let (door, bearer) = (door("127.0.0.1:7331"), format!("Bearer {TOKEN}"));
        let (host, length) = (("host", "localhost:7331"), ("content-length", "8388609"));
        let authorised = ("authorization", bearer.as_str());
        assert_eq!(admit(&door, "/", &[host, length]), Err(Refused::NoToken));
        assert_eq!(admit(&door, "/", &[host, authorised, length]), Err(Refused::TooLarge));
        let fits = ("content-length", "8388608");
        assert_eq!(admit(&door, "/", &[host, authorised, fits]), Ok(()));
    }

    #[test]
    fn a_server_on_every_address_goes_by_any_name_but_takes_no_foreign_page() {
        let (door, bearer) = (door("0.0.0.0:7331"), format!("Bearer {TOKEN}"));
        let (host, authorised) = (("host", "box.lan:7331"), ("authorization", bearer.as_str()));
        assert_eq!(admit(&door, "/", &[host, authorised]), Ok(()));
        let own = ("origin", "http://box.lan:7331");
        assert_eq!(admit(&door, "/", &[host, authorised, own]), Ok(()));
        let foreign = ("origin", "http://evil.example");
        assert_eq!(admit(&door, "/", &[host, authorised, foreign]), Err(Refused::OtherOrigin));
    }
}
