/**
 * The cost of traces, also without a collector: our server beside itself without a line that makes spans for a collector, in turns. There
 * are two without, since processes of the same code are some per cent apart: all are measured against both.
 */
import { createServer, type Server as HttpServer } from "node:http"
import path from "node:path"
import { columns } from "../../packages/slipway/src/commands/terminal/Output.ts"
import { serverOptionsOf, USUAL, withMaterial } from "../api/Material.ts"
import type * as Protocol from "../api/Protocol.ts"
import { begin, load, type Server } from "../api/Servers.ts"
import { median, number } from "../Statistics.ts"

/** As the budget of an endpoint beside Fastify: below it something is to be done. */
const REACH = 0.97

const OFF = "tracing off"

const targets: ReadonlyArray<{ readonly target: Protocol.Target; readonly name: string }> = [
  { target: "get", name: "GET, authenticated" },
  { target: "create", name: "create, 16 clients" }
]

/** Takes spans and keeps none. */
const collector = () =>
  new Promise<{ readonly server: HttpServer; readonly url: string; readonly requests: () => number }>((resolve) => {
    let requests = 0
    const server = createServer((request, response) => {
      requests++
      request.resume().on("end", () => response.end("{}"))
    })
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resolve({ server, url: `http://127.0.0.1:${port}/v1/traces`, requests: () => requests })
    })
  })

interface Result {
  readonly name: string
  readonly of: ReadonlyArray<
    { readonly server: string; readonly cpu: number; readonly perSecond: number; readonly ratios: ReadonlyArray<number> }
  >
}

/** Prints the table and whether our budget is reached. Ratios are of processor time, round by round: the load's own share is not in it. */
export const run = ({ quick }: { readonly quick: boolean }): Promise<void> =>
  withMaterial(USUAL, async ({ dataDir, material, url }) => {
    const collecting = await collector()
    const options = serverOptionsOf(url, dataDir)
    const hooks = path.join(import.meta.dirname, "WithoutSpans.mjs")
    const withoutSpans = () => begin("without spans", "SlipwayServer.ts", { ...options, hasSpans: false }, ["--import", hooks])
    const without = [await withoutSpans(), await withoutSpans()]
    const all = [
      ...without,
      await begin(OFF, "SlipwayServer.ts", options),
      await begin("tracing on", "SlipwayServer.ts", { ...options, collector: collecting.url })
    ]
    const { child: loader } = await begin("load", "Load.ts", null)
    await loader.ask({ _tag: "Material", material })

    const results: Array<Result> = []
    for (const { name, target } of targets) {
      for (const server of all) await load(server, loader, target, quick ? 700 : 1500)
      const rounds = new Map<Server, Array<Awaited<ReturnType<typeof load>>>>(all.map((server) => [server, []]))
      for (let round = 0; round < (quick ? 20 : 80); round++) {
        // The side that begins changes, and the order too.
        const order = all.map((_, i) => all[(i + round) % all.length]!)
        for (const server of round % 2 === 0 ? order : order.toReversed()) {
          rounds.get(server)?.push(await load(server, loader, target, 250))
        }
      }
      /** The median of both without, in that round. */
      const base = (round: number) =>
        without.reduce((sum, server) => sum + (rounds.get(server)?.[round]?.cpu ?? Number.NaN), 0) / without.length
      results.push({
        name,
        of: all.map((server) => {
          const own = rounds.get(server) ?? []
          return {
            server: server.name,
            cpu: median(own.map(({ cpu }) => cpu)),
            perSecond: median(own.map(({ perSecond }) => perSecond)),
            ratios: own.map(({ cpu }, round) => base(round) / cpu).sort((a, b) => a - b)
          }
        })
      })
    }
    if (collecting.requests() === 0) throw new Error("no spans were sent")
    for (const { child } of [...all, { child: loader }]) await child.stop()
    collecting.server.close()
    collecting.server.closeAllConnections()

    process.stdout.write(columns([
      ["", "", "requests/s", "CPU µs", "ratio", "25 %", "75 %"],
      ...results.flatMap(({ name, of }) =>
        of.map(({ cpu, perSecond, ratios, server }, i) => [
          i === 0 ? name : "",
          server,
          number(perSecond),
          number(cpu),
          ...[median(ratios), ...[0.25, 0.75].map((part) => ratios[Math.floor(ratios.length * part)] ?? Number.NaN)].map((ratio) =>
            ratio.toFixed(3)
          )
        ])
      )
    ]))
    const verdicts = results.map(({ name, of }) => {
      const ratio = median(of.find(({ server }) => server === OFF)?.ratios ?? [])
      return `${name}, off ${ratio.toFixed(3)} of ${REACH} ${ratio >= REACH ? "ok" : "missed"}`
    })
    process.stdout.write(`\n\nreach: ${verdicts.join("; ")}\n`)
  })
