//! `thinc broker` behind reverse proxies: nginx, Caddy and Apache with the configuration that
//! packaging/host has, and what a trusted and any other peer may say of the client's address. Needs
//! root, as broker.rs does, and the three web servers. Knows HTTP, files and processes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::broker::{
    Broker, RIGHT, is_skipped, log_in, open, post, post_login, replaced, sessions, start,
};
use crate::harness::{Browser, client_config, dial, tls_over, wait_until};

/// The name in the documented configurations.
const PUBLIC: &str = "desk.example.org";
/// The user that web servers run as.
const NOBODY: u32 = 65534;

fn behind_proxies() -> Broker {
    Broker::with_config(|_| "trusted-proxy = ['127.0.0.1', '127.77.0.0/16']\n".to_owned())
}

/// The addresses of these events in the audit log, in order.
fn audited(broker: &Broker, event: &str) -> Vec<String> {
    let text = fs::read_to_string(broker.folder.join("audit")).unwrap();
    let entries = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let entries = entries.filter(|entry| entry["event"] == event);
    entries.map(|entry| entry["from"].as_str().unwrap().to_owned()).collect()
}

/// The newest of them, once there are `count`.
fn newest(broker: &Broker, event: &str, count: usize) -> String {
    wait_until(event, || {
        let found = audited(broker, event);
        (found.len() >= count).then(|| found[count - 1].clone())
    })
}

/// A web server in front of a broker, until it is dropped.
struct WebServer {
    process: Child,
    address: SocketAddr,
}

impl Drop for WebServer {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

impl WebServer {
    /// `configure` returns the command for a folder, with the documented configuration of this
    /// name adapted to this machine.
    fn start(
        broker: &Broker,
        name: &str,
        configure: impl FnOnce(&Path, String, u16) -> Command,
    ) -> WebServer {
        let folder = broker.folder.join(name);
        fs::create_dir(&folder).unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-newkey", "ec", "-days", "9"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=desk.example.org"])
            .args(["-addext", "subjectAltName=DNS:desk.example.org"])
            .arg("-out")
            .arg(folder.join("chain.pem"))
            .arg("-keyout")
            .arg(folder.join("key.pem"))
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        // As doc/hosting.md says.
        let extracted = Command::new("openssl")
            .args(["x509", "-in"])
            .arg(broker.folder.join("state/identity.pem"))
            .arg("-out")
            .arg(folder.join("broker.pem"))
            .status()
            .unwrap();
        assert!(extracted.success());
        // Free a moment ago; a server that cannot have it says so and ends.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/host");
        let text = fs::read_to_string(documented.join(name)).unwrap();
        let text = replaced(&text, "127.0.0.1:8443", &broker.address.to_string());
        let text = replaced(
            &text,
            "/etc/thinc/broker-certificate.pem",
            folder.join("broker.pem").to_str().unwrap(),
        );
        let mut command = configure(&folder, text, port);
        for file in ["", "chain.pem", "key.pem", "broker.pem"] {
            std::os::unix::fs::chown(folder.join(file), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let log = fs::File::create(broker.folder.join(format!("{name}.log"))).unwrap();
        let process = command
            .uid(NOBODY)
            .gid(NOBODY)
            .env("HOME", &folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; is it installed?"));
        let mut server =
            WebServer { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) };
        let browser = server.browser(Ipv4Addr::LOCALHOST);
        wait_until("the web server answers", || {
            if let Some(status) = server.process.try_wait().unwrap() {
                let log = fs::read_to_string(broker.folder.join(format!("{name}.log"))).unwrap();
                panic!("it ended: {status}: {log}");
            }
            browser.try_connect().ok()
        });
        server
    }

    /// A browser at this address of this machine, which knows the public name.
    fn browser(&self, source: Ipv4Addr) -> Browser {
        Browser {
            source: Some(source),
            public: Some(format!("{PUBLIC}:{}", self.address.port())),
            ..Browser::at(self.address)
        }
    }
}

/// Certificate and key of a web server in the places of certbot's.
fn with_certbots_files(text: &str, folder: &Path) -> String {
    let certbot = "/etc/letsencrypt/live/desk.example.org";
    let text = replaced(text, &format!("{certbot}/fullchain.pem"), &path(folder, "chain.pem"));
    replaced(&text, &format!("{certbot}/privkey.pem"), &path(folder, "key.pem"))
}

fn path(folder: &Path, file: &str) -> String {
    folder.join(file).to_str().unwrap().to_owned()
}

/// Login, list, desktop and refusals through a web server, whose client is who it says.
fn assert_works(broker: &Broker, server: &WebServer) {
    let anna = broker.account();
    let client = Ipv4Addr::new(127, 9, 1, 7);
    let mut browser = server.browser(client);
    assert_eq!(browser.get("/health").text(), "ok");
    let page = browser.get("/");
    assert!(page.status == 200 && page.headers["content-type"].contains("html"), "{page:?}");
    let answer = log_in(&mut browser, &anna.name, "wrong");
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(newest(broker, "refusal", 1), client.to_string());

    assert_eq!(log_in(&mut browser, &anna.name, RIGHT).status, 200);
    assert_eq!(newest(broker, "login", 1), client.to_string());
    let name = start(&browser);
    assert_eq!(sessions(&browser), [name.as_str()]);
    // Its viewer's first bytes cross the WebSocket in both directions.
    let viewer = open(&browser, &name).unwrap();
    assert_eq!(newest(broker, "session-opened", 1), client.to_string());
    drop(viewer);
    newest(broker, "session-left", 1);

    // Another site's page, a request without the secret, and an address that is invented.
    let evil = [("Origin", "https://evil.example"), ("Content-Type", "application/json")];
    assert_eq!(browser.open("POST", "/login", &evil, "{}").0.status, 403);
    assert_eq!(browser.get("/sessions").status, 401);
    let liar = server.browser(Ipv4Addr::new(127, 9, 1, 8));
    let body = serde_json::json!({ "user": anna.name, "password": RIGHT }).to_string();
    let origin = format!("https://{}", liar.host());
    let headers = [
        ("Content-Type", "application/json"),
        ("Origin", origin.as_str()),
        ("X-Forwarded-For", "6.6.6.6"),
        ("Forwarded", "for=6.6.6.6"),
    ];
    let connection = liar.connect();
    let (answer, _) = liar.request_on(connection, "POST", "/login", &headers, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(newest(broker, "login", 2), "127.9.1.8");

    assert_eq!(post(&browser, &format!("/desk/{name}/end")).status, 204);
    assert_eq!(post(&browser, "/logout").status, 204);
}

#[test]
fn both_families_are_served_and_ipv4_counts_as_itself() {
    if is_skipped() {
        return;
    }
    let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
    let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    // One socket for both, and one for each.
    for addresses in [vec![all], vec![SocketAddr::new(v4, 0), SocketAddr::new(v6, 0)]] {
        let broker = Broker::on(&addresses);
        let anna = broker.account();
        for (at, client) in [v4, v6].into_iter().enumerate() {
            let port = broker.addresses[at.min(broker.addresses.len() - 1)].port();
            let mut browser = Browser::at(SocketAddr::new(client, port));
            assert_eq!(log_in(&mut browser, &anna.name, "wrong").status, 401);
            assert_eq!(log_in(&mut browser, &anna.name, RIGHT).status, 200);
            assert_eq!(newest(&broker, "refusal", at + 1), client.to_string());
            assert_eq!(newest(&broker, "login", at + 1), client.to_string());
        }
        assert!(!broker.log().contains("::ffff:"), "{}", broker.log());
    }
}

#[test]
fn nginx_passes_logins_and_desktops_on() {
    if is_skipped() {
        return;
    }
    let broker = behind_proxies();
    let server = WebServer::start(&broker, "nginx.conf", |folder, text, port| {
        let text = with_certbots_files(&text, folder);
        let text = replaced(&text, "listen 443 ssl;", &format!("listen 127.0.0.1:{port} ssl;"));
        let text = replaced(&text, "listen [::]:443 ssl;", "");
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {};\n", folder.join(kind).display()))
            .collect();
        let whole = format!(
            "daemon off;\npid {};\nerror_log stderr;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}{text}}}\n",
            folder.join("pid").display()
        );
        fs::write(folder.join("nginx.conf"), whole).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-e").arg("stderr").arg("-p").arg(folder).arg("-c");
        command.arg(folder.join("nginx.conf"));
        command
    });
    assert_works(&broker, &server);
}

#[test]
fn caddy_passes_logins_and_desktops_on() {
    if is_skipped() {
        return;
    }
    let broker = behind_proxies();
    let server = WebServer::start(&broker, "Caddyfile", |folder, text, port| {
        let documented = "#tls /etc/ssl/certs/desk.pem /etc/ssl/private/desk.pem";
        let tls = format!("tls {} {}", path(folder, "chain.pem"), path(folder, "key.pem"));
        let text = replaced(&text, documented, &tls);
        let text = replaced(&text, "\ndesk.example.org {", &format!("\n{PUBLIC}:{port} {{"));
        // Nothing but this site: no port for administration, and none that redirects from HTTP.
        let whole = format!("{{\nadmin off\nauto_https disable_redirects\n}}\n{text}");
        fs::write(folder.join("Caddyfile"), whole).unwrap();
        let mut command = Command::new("/usr/bin/caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
        command
    });
    assert_works(&broker, &server);
}

#[test]
fn apache_passes_logins_and_desktops_on() {
    if is_skipped() {
        return;
    }
    let broker = behind_proxies();
    let at = format!("localhost:{}", broker.address.port());
    let server = WebServer::start(&broker, "apache.conf", |folder, text, port| {
        let text = with_certbots_files(&text, folder);
        let text = replaced(&text, "localhost:8443", &at);
        let text = replaced(&text, "<VirtualHost *:443>", &format!("<VirtualHost *:{port}>"));
        // What Debian's apache2.conf and a2enmod do.
        let modules: String = [
            ("mpm_event", "mod_mpm_event"),
            ("authz_core", "mod_authz_core"),
            ("ssl", "mod_ssl"),
            ("socache_shmcb", "mod_socache_shmcb"),
            ("proxy", "mod_proxy"),
            ("proxy_http", "mod_proxy_http"),
            ("headers", "mod_headers"),
        ]
        .iter()
        .map(|(name, file)| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/{file}.so\n")
        })
        .collect();
        let whole = format!(
            "ServerName localhost\nServerRoot {0}\nDefaultRuntimeDir {0}\nPidFile {0}/pid\n\
             ErrorLog {0}/errors\n{modules}Mutex file:{0}\nListen 127.0.0.1:{port}\n{text}",
            folder.display()
        );
        fs::write(folder.join("apache.conf"), whole).unwrap();
        let mut command = Command::new("/usr/sbin/apache2");
        command.arg("-DFOREGROUND").arg("-f").arg(folder.join("apache.conf"));
        command
    });
    assert_works(&broker, &server);
}

#[test]
fn a_clients_address_is_what_a_trusted_proxy_says_and_nobody_else() {
    if is_skipped() {
        return;
    }
    let broker = behind_proxies();
    let anna = broker.account();
    let body = serde_json::json!({ "user": anna.name, "password": RIGHT }).to_string();
    let origin = format!("https://{}", broker.address);
    let log_in_with = |source: Ipv4Addr, more: &[(&str, &str)]| {
        let browser = Browser { source: Some(source), ..broker.browser() };
        let mut headers = vec![("Content-Type", "application/json"), ("Origin", origin.as_str())];
        headers.extend(more);
        browser.open("POST", "/login", &headers, &body).0
    };
    let (proxy, stranger) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 9, 2, 1));
    let mut count = 0;
    let mut is_from = |source: Ipv4Addr, more: &[(&str, &str)], client: &str| {
        let answer = log_in_with(source, more);
        assert_eq!(answer.status, 200, "{more:?}: {answer:?}");
        count += 1;
        assert_eq!(newest(&broker, "login", count), client, "{more:?}");
    };
    is_from(proxy, &[("X-Forwarded-For", "6.6.6.6, 192.0.2.7")], "192.0.2.7");
    is_from(proxy, &[("X-Forwarded-For", "6.6.6.6, 192.0.2.8, 127.77.0.5")], "192.0.2.8");
    is_from(proxy, &[("Forwarded", "for=6.6.6.6, for=\"[2001:db8::7]:99\"")], "2001:db8::7");
    is_from(proxy, &[], "127.0.0.1");
    is_from(stranger, &[("X-Forwarded-For", "6.6.6.6")], "127.9.2.1");
    is_from(stranger, &[("Forwarded", "for=6.6.6.6"), ("X-Forwarded-For", "x")], "127.9.2.1");
    let both = [("Forwarded", "for=6.6.6.6"), ("X-Forwarded-For", "192.0.2.7")];
    let answer = log_in_with(proxy, &both);
    assert!(answer.status == 400 && answer.text().contains("differ"), "{answer:?}");

    // One connection of a proxy carries requests of several people.
    let mut browser = broker.browser();
    let mut connection = browser.connect();
    for client in ["192.0.2.21", "192.0.2.22"] {
        let headers = [
            ("Content-Type", "application/json"),
            ("Origin", origin.as_str()),
            ("X-Forwarded-For", client),
        ];
        let (answer, rest) = browser.request_on(connection, "POST", "/login", &headers, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        connection = rest.into_inner();
        count += 1;
        assert_eq!(newest(&broker, "login", count), client);
    }

    // The PROXY protocol: version 2, TCP over IPv4.
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([192, 0, 2, 9, 127, 0, 0, 1, 0x12, 0x34, 1, 187]);
    let config = || client_config(&[&rustls::version::TLS13], Some(b"http/1.1"));
    let mut tcp = dial(proxy, broker.address).unwrap();
    tcp.write_all(&header).unwrap();
    let login = serde_json::json!({ "user": anna.name, "password": RIGHT });
    let answer = post_login(&mut browser, tls_over(tcp, config()).unwrap(), &login);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(newest(&broker, "login", count + 1), "192.0.2.9");
    // Nobody else may, nor with version 1, and nothing is answered.
    for (source, bytes) in [(stranger, &header[..]), (proxy, b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n")]
    {
        let mut tcp = dial(source, broker.address).unwrap();
        tcp.write_all(bytes).unwrap();
        assert!(tls_over(tcp, config()).is_err());
    }
    let mut tcp = dial(proxy, broker.address).unwrap();
    tcp.write_all(&header[..20]).unwrap();
    tcp.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(tcp.read(&mut [0; 64]).unwrap(), 0, "half a header is the end");
}
