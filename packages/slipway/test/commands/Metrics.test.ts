import { assert, describe, it } from "@effect/vitest"
import { parse } from "@slipway/http/testing/PrometheusText"
import { Effect } from "effect"
import { folder, repository, run, serve, until } from "./SlipwayProcess.ts"

describe("the metrics of a service", () => {
  it.live("tell what it did from boot to pull request, to a key made for that, and name nothing of it", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const server = yield* serve(data, { SLIPWAY_WORKER_SLOTS: "8" })
      yield* run(data, ["repos", "add", "distinctive-owner/shop", repository(data, "distinctive-folder")])
      const made = yield* run(data, ["keys", "create", "--grant", "distinctive-grant", "--label", "distinctive-label", "--scopes",
        "metrics:read", "--json"])
      const scraper: { readonly key: string; readonly id: string; readonly grantId: string } = JSON.parse(made.stdout)
      const ask = (key: string | undefined, address: string, body?: object) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}${address}`, {
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
          })
          return { status: response.status, text: await response.text() }
        })
      const api = (address: string, body?: object) =>
        Effect.map(ask(server.key, `/api/public/v1/sandboxes${address}`, body), ({ text }) => JSON.parse(text))

      assert.strictEqual((yield* ask(server.key, "/metrics")).status, 403)
      const { id } = yield* api("", {
        repos: [{ fullName: "distinctive-owner/shop" }],
        prompt: "[[write path=distinctive-path content=x]]"
      })
      yield* until(api(`/${id}`), ({ status, turn }) => status === "running" && turn.active === false)
      assert.strictEqual((yield* api(`/${id}/pull-request`, {})).actionState, "idle")
      yield* api(`/${id}/terminate`, {})
      yield* until(api(`/${id}`), ({ status }) => status === "terminated")

      const { status, text } = yield* ask(scraper.key, "/metrics")
      assert.strictEqual(status, 200)
      const { values } = parse(text)
      const expected = {
        slipway_sandboxes_created_total: 1,
        slipway_boots_started_total: 1,
        slipway_boot_duration_seconds_count: 1,
        "slipway_turns_ended_total{state=\"succeeded\"}": 1,
        "slipway_turns_ended_total{state=\"failed\"}": 0,
        "slipway_publications_total{outcome=\"published\"}": 1,
        "slipway_publications_total{outcome=\"source_host_error\"}": 0,
        "slipway_checkpoints_total{outcome=\"failed\"}": 0,
        "slipway_restores_total{cause=\"command\"}": 0,
        "slipway_sandboxes_failed_total{reason=\"boot_failed\"}": 0,
        "slipway_webhook_attempts_total{outcome=\"delivered\"}": 0,
        "slipway_http_refusals_total{code=\"403\"}": 1,
        "slipway_setup_caches_total{what=\"hit\"}": 0,
        slipway_setup_cache_bytes: 0,
        slipway_worker_slots: 8
      }
      assert.deepStrictEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, values.get(name)])), expected)
      const real = ["process_resident_memory_bytes", "nodejs_heap_size_used_bytes", "process_cpu_seconds_total", "process_open_fds",
        "process_start_time_seconds"]
      for (const name of real) assert.isAbove(values.get(name) ?? 0, 0, name)
      const names = ["distinctive", "offline", id, data, server.key ?? "", scraper.key, scraper.id, scraper.grantId, "shop"]
      for (const name of names) assert.notInclude(text, name)
      assert.notMatch(text, /[0-9a-f]{8}-[0-9a-f]{4}|c_[a-z2-9]{12}|user_[0-9A-Z]{10}|req_|sbx_/u)
    }))
})
