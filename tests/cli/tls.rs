//! TLS to a database whose certificate nobody but itself has signed.

use std::path::Path;
use std::process::Command;

use fencing::{Resource, Token, sql};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};

use support::cli::ask;
use support::clients::output;
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

/// Makes a key and a certificate for this address.
fn certify(folder: &Path, address: &str) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=fencing", "-addext", &format!("subjectAltName=IP:{address}")]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(folder.join("key")).arg("-out").arg(folder.join("certificate"));
    output(&mut openssl).unwrap();
}

/// An address of this machine that no other test has.
fn address() -> String {
    let process = std::process::id();
    format!("127.{}.{}.{}", 101 + (process >> 16) % 100, process >> 8 & 255, process & 255)
}

#[tokio::test]
async fn postgresql_is_reached_over_tls() {
    let (address, folder) = (address(), tempfile::tempdir().unwrap());
    certify(folder.path(), &address);
    let server = PostgresServer::with(&[&format!("listen_addresses={address}")]);
    let database = server.database().await;
    let name = database.get_database().unwrap().to_owned();
    let psql = |statement: &str| output(server.client(&name).arg("-c").arg(statement)).unwrap();
    // The server reads nothing but files of its own.
    for file in ["key", "certificate"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        let write = format!("umask 077; cat >{file}");
        psql(&format!(
            "COPY (SELECT unnest(string_to_array($${text}$$, E'\\n'))) TO PROGRAM '{write}'"
        ));
        psql(&format!("ALTER SYSTEM SET ssl_{}_file = '{file}'", &file[..file.len().min(4)]));
    }
    psql("ALTER SYSTEM SET ssl = on");
    psql("SELECT pg_reload_conf()");

    let options = PgConnectOptions::new_without_pgpass().host(&address);
    let options = options.username("fencing").database(&name);
    let pool = |mode, root: Option<&Path>| {
        let options = options.clone().ssl_mode(mode);
        let options = root.into_iter().fold(options, PgConnectOptions::ssl_root_cert);
        PgPoolOptions::new().max_connections(2).connect_lazy_with(options)
    };
    let url = format!("postgres://fencing@{address}/{name}?sslmode=require");
    ask(&url, "migrate").is(0);
    let required = pool(PgSslMode::Require, None);
    let over = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert!(sqlx::query_scalar::<_, bool>(over).fetch_one(&required).await.unwrap());
    let resource = Resource::new("files/a").unwrap();
    let token = |number| Token::new(number).unwrap();
    sql::begin(&required, &resource, token(34)).await.unwrap().commit().await.unwrap();

    let verified = pool(PgSslMode::VerifyFull, Some(&folder.path().join("certificate")));
    let stale = sql::begin(&verified, &resource, token(33)).await;
    assert!(matches!(stale, Err(sql::AdmitError::Stale(_))), "{stale:?}");
    let unknown = pool(PgSslMode::VerifyFull, None);
    let error = sql::begin(&unknown, &resource, token(35)).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn mariadb_is_reached_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path(), "127.0.0.1");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let open = Command::new("chmod").args(["-R", "a+rX", &file("")]).status().unwrap();
    assert!(open.success());
    let (key, certificate) = (file("key"), file("certificate"));
    let settings = [format!("ssl-key={key}"), format!("ssl-cert={certificate}")];
    let server = MariadbServer::with(&[&settings[0], &settings[1]]);
    let create = "CREATE DATABASE tls; SELECT @@socket";
    let socket = output(server.client("").arg("-e").arg(create)).unwrap();
    let options = MySqlConnectOptions::new().socket(socket.trim()).username("root");
    let options = options.database("tls");
    let pool = MySqlPoolOptions::new().max_connections(2);
    let pool = pool.connect_lazy_with(options.ssl_mode(MySqlSslMode::Required));
    sql::migrate(&pool).await.unwrap();
    let cipher = sqlx::query_as::<_, (String, String)>("SHOW STATUS LIKE 'Ssl_cipher'");
    let (_, cipher) = cipher.fetch_one(&pool).await.unwrap();
    assert!(cipher.starts_with("TLS_"), "{cipher:?}");
    let (resource, token) = (Resource::new("files/a").unwrap(), Token::new(34).unwrap());
    sql::begin(&pool, &resource, token).await.unwrap().commit().await.unwrap();
}
