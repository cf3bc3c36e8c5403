/** Our server and what is written by hand, side by side on one durable Postgres. */
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"
import { serverOptionsOf, USUAL, withMaterial } from "./Material.ts"
import * as Requests from "./Requests.ts"
import { begin, profiled, withServers } from "./Servers.ts"
import * as Streams from "./Streams.ts"

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> => {
  options.say("a database with tenants, keys and sandboxes")
  return withMaterial(USUAL, async (at) => {
    const { only, profile } = options
    const serverOptions = serverOptionsOf(at.url, at.dataDir)
    const measured: Array<Measurement> = []
    if (only.size > 1 || !only.has("stream-memory")) {
      await withServers([
        begin("slipway", "SlipwayServer.ts", serverOptions, profiled(profile)),
        begin("fastify", "FastifyServer.ts", serverOptions),
        begin("node:http", "RawServer.ts", serverOptions),
        begin("load", "Load.ts", null)
      ], async (ours, theirs, raw, loader) => {
        measured.push(...await Requests.measure(at, { ours, theirs, raw, loader }, options))
        measured.push(...await Streams.measure(at, { ours, raw, loader }, options))
      })
    }
    if (only.has("stream-memory")) {
      options.say("idle streams")
      await withServers([
        begin("slipway", "SlipwayServer.ts", serverOptions, ["--expose-gc"]),
        begin("node:http", "RawServer.ts", serverOptions, ["--expose-gc"]),
        begin("load", "Load.ts", null)
      ], async (ours, raw, loader) => {
        await loader.child.ask({ _tag: "Material", material: at.material })
        measured.push(await Streams.memory({ ours, raw, loader }, options))
      })
    }
    return measured
  })
}
