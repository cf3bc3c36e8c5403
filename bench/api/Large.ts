/** The cost of a large database: our server beside itself on a small one. A small database fits the caches; a large one does not. */
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"
import { type Size, serverOptionsOf, withMaterial } from "./Material.ts"
import { begin, both, load, profiled, type Server, side, takeTurns, withServers } from "./Servers.ts"
import { appendOnce, beginTurn } from "./Streams.ts"

const SMALL: Size = { tenants: 8, sandboxes: 5, copies: 1000 }
const LARGE: Size = { ...SMALL, copies: 1_000_000 }

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> =>
  withMaterial(SMALL, (small) =>
    withMaterial(LARGE, (large) =>
      withServers([
        begin("slipway", "SlipwayServer.ts", serverOptionsOf(large.url, large.dataDir), profiled(options.profile)),
        begin("small", "SlipwayServer.ts", serverOptionsOf(small.url, small.dataDir)),
        begin("load", "Load.ts", null),
        begin("load", "Load.ts", null)
      ], async (ofLarge, ofSmall, largeLoader, smallLoader) => {
        const { only, say } = options
        await largeLoader.child.ask({ _tag: "Material", material: large.material })
        await smallLoader.child.ask({ _tag: "Material", material: small.material })
        const measured: Array<Measurement> = []
        if (only.has("list-large")) {
          say("list of 100 of 1,000,000")
          const once = (server: Server, loader: Server, millis: number) => load(server, loader.child, "list", millis)
          const sides = [[ofLarge, largeLoader], [ofSmall, smallLoader]] as const
          for (const [server, loader] of sides) await once(server, loader, 3000)
          const [a = [], b = []] = await takeTurns(sides.map(([server, loader]) => () => once(server, loader, 2000)))
          measured.push({
            id: "list-large",
            what: "list of 100 at 1,000,000 rows, p50",
            unit: "ms",
            better: "lower",
            ours: side("at 1,000,000", a, "p50"),
            theirs: side("at 1,000", b, "p50"),
            reach: { times: 1 / 1.3 },
            notes: { "CPU µs": both("cpu", a, b), "p99 ms": both("p99", a, b) }
          })
        }
        if (only.has("append-large")) {
          say("event append at 10,000,000")
          const sides = [[ofLarge, large], [ofSmall, small]] as const
          const idOf = (at: typeof large) => at.material.followed.sandboxIds[0] ?? ""
          for (const [server, at] of sides) {
            await beginTurn(server, idOf(at))
            await appendOnce(server, idOf(at), 500)
          }
          const [a = [], b = []] = await takeTurns(sides.map(([server, at]) => () => appendOnce(server, idOf(at), 1000)))
          measured.push({
            id: "append-large",
            what: "event append at 10,000,000 rows",
            unit: "µs",
            better: "lower",
            ours: side("at 10,000,000", a, "micros"),
            theirs: side("at 10,000", b, "micros"),
            reach: { times: 1 / 1.2 },
            notes: { "CPU µs": both("cpu", a, b) }
          })
        }
        return measured
      }), options.say))
