//! Figures as OpenMetrics text, version 1.0.0. Beside the path: from http.rs. No label has a name
//! of a person or a session: how many series there are does not depend on how many of these there
//! are. Knows figures and their names.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::{BrokerFigures, Snapshot};
use crate::figures::{BOUNDS_US, COMMAND_KINDS, Times};

/// The whole text.
pub(super) fn text(snapshot: Arc<Snapshot>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("thinc");
    registry.register_collector(Box::new(All(snapshot)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct All(Arc<Snapshot>);

impl Collector for All {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Snapshot { sessions, viewed_sessions, viewers, counts, memory, broker, rows: _ } =
            &*self.0;
        let mut out = Out(encoder);
        out.gauge("sessions", "Sessions that run.", *sessions)?;
        out.gauge("viewed_sessions", "Sessions that a viewer shows.", *viewed_sessions)?;
        out.gauges("viewers", "Viewers, by transport.", None, "transport", viewers)?;
        if let Some(broker) = broker {
            out.broker(broker)?;
        }
        out.times(
            "echo",
            "From the delivery of an input until the first update that responds to it is sent.",
            &counts.echo,
        )?;
        out.times(
            "round_trip",
            "From an update that is sent until the viewer has applied it.",
            &counts.round_trip,
        )?;
        out.times("encode", "Encoding what is sent at once.", &counts.encode)?;
        let kinds: Vec<(&str, u64)> = COMMAND_KINDS.into_iter().zip(counts.command_bytes).collect();
        let help = "Bytes of display commands, before the connections' compression, by command.";
        out.counters("command", help, Some(Unit::Bytes), "command", &kinds)?;
        out.counter("sent", "Bytes sent to viewers.", Some(Unit::Bytes), counts.sent_bytes)?;
        out.counter("updates", "Updates sent to viewers.", None, counts.updates)?;
        let help = "Memory that a part has for itself alone: no file, and nothing shared.";
        out.gauges("memory", help, Some(Unit::Bytes), "part", memory)
    }
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn broker(&mut self, broker: &BrokerFigures) -> fmt::Result {
        let BrokerFigures {
            open_logins,
            logins,
            refusals,
            unauthenticated,
            is_draining,
            waiting,
            refused_starts,
            waited_starts,
            pressure_percent,
            implausible,
        } = broker;
        self.gauge("open_logins", "Logins that open desktops.", *open_logins)?;
        self.counter("logins", "Logins.", None, *logins)?;
        let help = "Attempts to log in that were refused, by reason.";
        self.counters("refusals", help, None, "reason", refusals)?;
        let help = "Connections that have shown no login yet.";
        self.gauge("unauthenticated_connections", help, *unauthenticated)?;
        let help = "1 while the broker takes no new logins.";
        self.gauge("draining", help, u64::from(*is_draining))?;
        let help = "People who wait for a desktop while the machine is under pressure.";
        self.gauge("waiting", help, *waiting)?;
        let help = "Desktops that were not started because the machine was under pressure.";
        self.counter("refused_starts", help, None, *refused_starts)?;
        let help = "Desktops that were started after a wait.";
        self.counter("waited_starts", help, None, *waited_starts)?;
        let help = "Percent of the last 10 s in which some process waited for the resource.";
        self.gauges("pressure_percent", help, None, "resource", pressure_percent)?;
        let help = "Times that a session's figures were impossible, and left out.";
        self.counter("implausible_figures", help, None, *implausible)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(encoder)
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        label: &str,
        values: &[(&'static str, u64)],
    ) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        each(encoder, label, values, |value, encoder| ConstGauge::new(value).encode(encoder))
    }

    fn counter(&mut self, name: &str, help: &str, unit: Option<Unit>, value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        label: &str,
        values: &[(&'static str, u64)],
    ) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        each(encoder, label, values, |value, encoder| ConstCounter::new(value).encode(encoder))
    }

    fn times(&mut self, name: &str, help: &str, times: &Times) -> fmt::Result {
        let unit = Unit::Seconds;
        let mut encoder =
            self.0.encode_descriptor(name, help, Some(&unit), MetricType::Histogram)?;
        let bounds = BOUNDS_US.map(seconds).into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(times.counts).collect();
        let count = times.counts.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(seconds(times.sum_us), count, &buckets, None)
    }
}

fn each(
    mut encoder: MetricEncoder<'_>,
    label: &str,
    values: &[(&'static str, u64)],
    put: impl Fn(u64, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    for &(name, value) in values {
        put(value, encoder.encode_family(&[(label, name)])?)?;
    }
    Ok(())
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Row;

    #[test]
    fn the_text_has_every_figure_and_no_name_of_a_person() {
        let mut snapshot = Snapshot {
            sessions: 3,
            viewed_sessions: 2,
            viewers: vec![("tcp", 1), ("quic", 4)],
            memory: vec![("front", 1 << 20)],
            broker: Some(BrokerFigures {
                refusals: vec![("refused", 7)],
                waiting: 2,
                refused_starts: 5,
                pressure_percent: vec![("memory", 40)],
                ..Default::default()
            }),
            ..Snapshot::default()
        };
        snapshot.counts.echo.counts[0] = 2;
        snapshot.counts.echo.counts[14] = 1;
        snapshot.counts.echo.sum_us = 3_000_200;
        snapshot.counts.command_bytes[5] = 99;
        snapshot.rows = vec![Row {
            user: "anna".into(),
            name: "xfce".into(),
            age_s: 1,
            screen: None,
            viewers: 1,
            guests: 0,
            round_trip_us: None,
        }];
        let text = text(Arc::new(snapshot)).unwrap();
        for line in [
            "# TYPE thinc_sessions gauge",
            "thinc_sessions 3",
            "thinc_viewers{transport=\"quic\"} 4",
            "thinc_refusals_total{reason=\"refused\"} 7",
            "thinc_waiting 2",
            "thinc_refused_starts_total 5",
            "thinc_waited_starts_total 0",
            "thinc_pressure_percent{resource=\"memory\"} 40",
            "# UNIT thinc_echo_seconds seconds",
            "thinc_echo_seconds_bucket{le=\"0.0001\"} 2",
            "thinc_echo_seconds_bucket{le=\"2.0\"} 2",
            "thinc_echo_seconds_bucket{le=\"+Inf\"} 3",
            "thinc_echo_seconds_count 3",
            "thinc_echo_seconds_sum 3.0002",
            "thinc_command_bytes_total{command=\"photo\"} 99",
            "thinc_memory_bytes{part=\"front\"} 1048576",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
        }
        assert!(!text.contains("anna") && !text.contains("xfce"));
    }
}
