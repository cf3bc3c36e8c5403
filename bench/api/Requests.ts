/** Rows of single requests: 16 clients that send one after the other, to our server and to one written by hand. */
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"
import type { At } from "./Material.ts"
import type * as Protocol from "./Protocol.ts"
import { both, CLIENTS, load, type Server, side, takeTurns } from "./Servers.ts"

const targets: ReadonlyArray<{ readonly target: Protocol.Target; readonly what: string }> = [
  { target: "get", what: "GET by id" },
  { target: "list", what: "list of 100" },
  { target: "malformed", what: "401, malformed key" },
  { target: "unknown", what: "401, unknown key" },
  { target: "limited", what: "429, key at its limit" },
  { target: "create", what: `create, ${CLIENTS} clients` }
]

export const measure = async (
  { material, creator, useUp }: At,
  { ours, raw, theirs, loader }: { readonly ours: Server; readonly theirs: Server; readonly raw: Server; readonly loader: Server },
  { only, quick, say }: Options
): Promise<ReadonlyArray<Measurement>> => {
  const millis = quick ? 400 : 1500
  const measured: Array<Measurement> = []
  await loader.child.ask({ _tag: "Material", material })
  for (const { target, what } of targets) {
    const isBare = target === "create" && only.has("create-bare")
    if (!only.has(target) && !isBare) continue
    say(what)
    if (target === "limited") await useUp()
    const of = (server: Server) => (time: number) => load(server, loader.child, target, time)
    const bare = async (time: number) => {
      const { millis, p50, p99, requests } = await raw.child.ask<Protocol.Loaded>({
        _tag: "Create",
        connections: CLIENTS,
        millis: time,
        by: creator
      })
      return { perSecond: requests / millis * 1000, cpu: Number.NaN, p50, p99 }
    }
    const sides = [of(ours), of(theirs), ...isBare ? [bare] : []]
    for (const warm of sides) await warm(quick ? 700 : 1500)
    const [a = [], b = [], c = []] = await takeTurns(sides.map((one) => () => one(millis)))
    const row = { unit: "requests/s", better: "higher", ours: side(ours.name, a, "perSecond") } as const
    const notes = (other: typeof a) => ({
      "CPU µs": both("cpu", a, other),
      "p50 ms": both("p50", a, other),
      "p99 ms": both("p99", a, other)
    })
    if (only.has(target)) {
      measured.push({ id: target, what, ...row, theirs: side(theirs.name, b, "perSecond"), reach: { times: 1 }, notes: notes(b) })
    }
    if (isBare) {
      const what = `create, beside its transaction`
      measured.push({ id: "create-bare", what, ...row, theirs: side("pg", c, "perSecond"), reach: { times: 0.5 }, notes: notes(c) })
    }
  }
  return measured
}
