/** The dashboard and the alert rules of `deploy/`, and what the service really tells. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, freePort, run, serve, until, worker } from "../commands/SlipwayProcess.ts"
import { changed, file, has, text } from "./Deploy.ts"

const LONG = 300_000

const withoutPromtool = !has("promtool", ["--version"])
const withoutPrometheus = !has("prometheus", ["--version"])

interface Dashboard {
  readonly panels: ReadonlyArray<{ readonly title: string; readonly targets: ReadonlyArray<{ readonly expr: string }> }>
}

const rules = Array.from(
  text("prometheus/slipway.rules.yml").matchAll(/^ +expr: (?:>\n)?([^]*?)\n +(?:for|labels):/gmu),
  ([, expr = ""]) => expr
)
const dashboard: Dashboard = JSON.parse(text("grafana/slipway.json"))
const panels = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))

/** Metrics by name, with what a selector asks of each label. */
const selected = (expr: string) =>
  Array.from(expr.matchAll(/\b((?:slipway|process|nodejs)_\w+)(?:\{([^}]*)\})?/gu), ([, name = "", labels = ""]) => ({
    name,
    labels: Array.from(labels.matchAll(/(\w+)=~?"([^"]*)"/gu), ([, label = "", values = ""]) => ({ label, values: values.split("|") }))
      // Prometheus adds it.
      .filter(({ label }) => label !== "job")
  }))

/** The labels that an expression groups by: each is of all metrics in it. */
const groups = (expr: string) =>
  Array.from(expr.matchAll(/\bby \(([^)]*)\)/gu), ([, labels = ""]) => labels.split(/,\s*/u)).flat()
    // Prometheus adds it.
    .filter((label) => label !== "instance")

describe("monitoring", () => {
  it.live("the service tells every metric and label that the dashboard and the rules name", () =>
    Effect.gen(function*() {
      const home = yield* folder
      // This address has no listener: metrics of spans are reported all the same.
      const { url } = yield* serve(home, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" })
      const { key } = JSON.parse(
        (yield* run(home, ["keys", "create", "--grant", "monitoring", "--scopes", "metrics:read", "--json"])).stdout
      )
      const scrape = Effect.promise(() =>
        fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } }).then((reply) => reply.text())
      )
      // One answered request, and one for a missing resource.
      yield* scrape
      yield* Effect.promise(() => fetch(`${url}/nothing`).then((reply) => reply.text()))
      const lines = (yield* scrape).split("\n").filter((line) => line !== "" && !line.startsWith("#"))
      const seriesOf = (name: string) => lines.filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))

      assert.isAbove(rules.length, 5)
      assert.isAbove(panels.length, 10)
      for (const expr of [...rules, ...panels]) {
        for (const { name, labels } of selected(expr)) {
          assert.isNotEmpty(seriesOf(name), `there is no ${name}: ${expr}`)
          for (const label of groups(expr)) {
            assert.isTrue(seriesOf(name).some((line) => line.includes(`${label}="`)), `${name} has no ${label}: ${expr}`)
          }
          for (const { label, values } of labels) {
            for (const value of values) {
              // Nothing went wrong yet, but the next one will be counted beside those of the class of 4xx.
              const shown = value === "5xx" ? "4xx" : value
              assert.isTrue(
                seriesOf(name).some((line) => line.includes(`${label}="${shown}"`)),
                `${name} has no ${label} ${value}: ${expr}`
              )
            }
          }
        }
      }
    }).pipe(Effect.scoped), LONG)

  it.skipIf(withoutPromtool)("each rule fires for its trouble, and not for less (needs promtool)", () => {
    const tested = execFileSync("promtool", ["test", "rules", file("prometheus/slipway.rules.test.yml")], { encoding: "utf8" })
    assert.include(tested, "SUCCESS")
    for (const [, alert = ""] of text("prometheus/slipway.rules.yml").matchAll(/- alert: (\w+)/gu)) {
      assert.strictEqual(text("prometheus/slipway.rules.test.yml").split(alert).length - 1, 2, `${alert} has no test of both`)
    }
  })

  it.live.skipIf(withoutPrometheus)(
    "Prometheus scrapes those that answer requests and those that only work, as one job (needs prometheus)",
    () =>
      Effect.gen(function*() {
        const [front, back] = [yield* folder, yield* folder]
        const database = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer) }
        const { url } = yield* serve(front, { ...database, SLIPWAY_ROLE: "http" })
        const { stdout } = yield* run(front, ["keys", "create", "--grant", "monitoring", "--scopes", "metrics:read", "--json"], database)
        writeFileSync(path.join(front, "slipway.key"), JSON.parse(stdout).key)
        const watched = `127.0.0.1:${yield* freePort}`
        yield* worker(back, database.DATABASE_URL, { SLIPWAY_METRICS_ADDRESS: watched })
        const answering = new URL(url).host
        const config = path.join(front, "prometheus.yml")
        writeFileSync(
          config,
          changed(text("prometheus/prometheus.yml"), [
            ["rule_files: [slipway.rules.yml]", `global: { scrape_interval: 1s }\nrule_files: [${file("prometheus/slipway.rules.yml")}]`],
            ["/etc/prometheus/slipway.key", path.join(front, "slipway.key")],
            ["127.0.0.1:4000", answering],
            ["127.0.0.1:4002", watched]
          ])
        )
        const own = `127.0.0.1:${yield* freePort}`
        yield* SpawnedProgram.scoped("prometheus", [`--config.file=${config}`, `--storage.tsdb.path=${front}/tsdb`,
          `--web.listen-address=${own}`])
        /** The instances of which the expression holds. */
        const instances = (expr: string) =>
          Effect.promise(async (): Promise<ReadonlyArray<string>> => {
            const reply = await fetch(`http://${own}/api/v1/query?query=${encodeURIComponent(expr)}`).catch(() => null)
            if (reply === null || !reply.ok) return []
            const { data } = await reply.json()
            return data.result.map(({ metric }: { readonly metric: { readonly instance: string } }) => metric.instance).toSorted()
          })
        yield* until(instances("up{job=\"slipway\"} == 1"), ({ length }) => length === 2)
        assert.deepStrictEqual(yield* instances("slipway_worker_slots{job=\"slipway\"}"), [watched])
        assert.deepStrictEqual(yield* instances("slipway_queue_age_seconds{job=\"slipway\"}"), [answering])
        assert.deepStrictEqual(yield* instances("process_max_fds{job=\"slipway\"}"), [answering, watched].toSorted())
      }).pipe(Effect.scoped),
    LONG
  )
})
