//! A server on this machine, for programs and for the browser of its user. It refuses requests of other web pages: those with a
//! foreign `Host`, `Origin` or `Sec-Fetch-Site`.

pub(crate) use cosmos_emulator::http_server::HttpServer;
