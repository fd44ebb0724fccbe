//! Refuses requests that a web page made a browser send.
//!
//! The servers of this machine trust whoever reaches the loopback interface, and a browser reaches it for every page that
//! it shows. A page can send a request to `127.0.0.1` directly, or load itself from a DNS name that is then rebound to
//! `127.0.0.1`. The first has an `Origin` or a `Sec-Fetch-Site` of another site, which a page cannot change; the second has
//! its own name in `Host`. Programs (SDKs, command lines) send neither `Origin` nor `Sec-Fetch-Site`, and the address that
//! they connect to as `Host`.

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::request::Parts;

const SITE: &str = "sec-fetch-site";
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Why a request is refused; `None` for a request of a program, or of a page of this server. `port` is the server's.
pub(crate) fn refusal(request: &Parts, port: u16) -> Option<&'static str> {
    let named = match request.uri.authority() {
        // A request target with an authority takes precedence over the header.
        Some(authority) => is_own(authority.as_str(), port),
        None => single(&request.headers, HOST.as_str()).is_some_and(|host| is_own(host, port)),
    };
    if !named {
        return Some("its Host is not 127.0.0.1 or localhost with the port of this server");
    }
    let is_own_origin = |origin: &HeaderValue| {
        let authority = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        authority.is_some_and(|authority| is_own(authority, port))
    };
    if !request.headers.get_all(ORIGIN).iter().all(is_own_origin) {
        return Some("it comes from a web page of another Origin");
    }
    let is_own_site = |site: &HeaderValue| site == "same-origin" || site == "none";
    if !request.headers.get_all(SITE).iter().all(is_own_site) {
        return Some("it comes from a web page of another site");
    }
    None
}

/// The value of a header that occurs once.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}

/// Whether an authority is this server: a name of the loopback interface, and the port.
fn is_own(authority: &str, port: u16) -> bool {
    let (name, given) = match authority.rsplit_once(':') {
        Some((name, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => (name, digits.parse().ok()),
        _ => (authority, Some(80)),
    };
    given == Some(port) && LOOPBACK.iter().any(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn refused(target: &str, headers: &[(&str, &str)]) -> bool {
        let request = headers
            .iter()
            .fold(Request::builder().uri(target), |request, (name, value)| {
                request.header(*name, *value)
            });
        refusal(&request.body(()).unwrap().into_parts().0, 9400).is_some()
    }

    #[test]
    fn only_requests_to_this_server_are_served() {
        for fine in ["127.0.0.1:9400", "localhost:9400", "LocalHost:9400", "[::1]:9400"] {
            assert!(!refused("/a", &[("host", fine)]), "{fine}");
        }
        for wrong in [
            "",
            "evil.example",
            "evil.example:9400",
            "127.0.0.1.evil.example:9400",
            "localhost.evil.example:9400",
            "127.0.0.1",
            "127.0.0.1:9401",
            "127.0.0.1:",
            "127.0.0.1:09400x",
            "evil@127.0.0.1:9400",
            "0.0.0.0:9400",
        ] {
            assert!(refused("/a", &[("host", wrong)]), "{wrong}");
        }
        assert!(refused("/a", &[]), "every client sends a host");
        assert!(refused("/a", &[("host", "127.0.0.1:9400"), ("host", "evil.example")]));
        assert!(refused("http://evil.example/a", &[("host", "127.0.0.1:9400")]));
        assert!(!refused("http://127.0.0.1:9400/a", &[("host", "127.0.0.1:9400")]));
        assert!(is_own("localhost", 80) && !is_own("localhost", 443));
    }

    #[test]
    fn requests_of_foreign_web_pages_are_refused() {
        for (name, value, fine) in [
            ("origin", "http://127.0.0.1:9400", true),
            ("origin", "http://localhost:9400", true),
            ("origin", "http://localhost:3000", false),
            ("origin", "https://localhost:9400", false),
            ("origin", "https://evil.example", false),
            ("origin", "http://127.0.0.1:9400.evil.example", false),
            ("origin", "null", false),
            ("origin", "", false),
            ("sec-fetch-site", "same-origin", true),
            ("sec-fetch-site", "none", true),
            ("sec-fetch-site", "same-site", false),
            ("sec-fetch-site", "cross-site", false),
        ] {
            let refused = refused("/a", &[("host", "127.0.0.1:9400"), (name, value)]);
            assert_eq!(!refused, fine, "{name}: {value}");
        }
    }
}
