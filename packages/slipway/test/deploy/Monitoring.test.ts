/** The dashboard and the alert rules of `deploy/`, and what the service really tells. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { folder, run, serve } from "../commands/SlipwayProcess.ts"
import { file, has, text } from "./Deploy.ts"

const LONG = 120_000

const withoutPromtool = !has("promtool", ["--version"], "rules are not tested by it (apt-get install prometheus)")

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
      const { url } = yield* serve(home)
      const { key } = JSON.parse(
        (yield* run(home, ["keys", "create", "--grant", "monitoring", "--scopes", "metrics:read", "--json"])).stdout
      )
      const scrape = Effect.promise(() =>
        fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } }).then((reply) => reply.text())
      )
      // So that there is one that was answered, and one that was not found.
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

  it.skipIf(withoutPromtool)("each rule fires for its trouble, and not for less", () => {
    const tested = execFileSync("promtool", ["test", "rules", file("prometheus/slipway.rules.test.yml")], { encoding: "utf8" })
    assert.include(tested, "SUCCESS")
    for (const [, alert = ""] of text("prometheus/slipway.rules.yml").matchAll(/- alert: (\w+)/gu)) {
      assert.strictEqual(text("prometheus/slipway.rules.test.yml").split(alert).length - 1, 2, `${alert} has no test of both`)
    }
  })
})
