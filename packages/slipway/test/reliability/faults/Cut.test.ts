/** Networks that are cut in the middle of a message: between clients and the service, and between each process and Postgres. */
import * as Postgres from "@slipway/embedded-postgres/testing/PostgresCluster"
import { Effect } from "effect"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import * as Readers from "../../../testing/Readers.ts"
import { chance, fault, type Found, ROUNDS } from "./Battery.ts"
import * as Checks from "./Checks.ts"
import * as Line from "./Line.ts"
import * as Load from "./Load.ts"
import * as Sandboxes from "./Sandboxes.ts"
import * as Service from "./Service.ts"

const CUT_MILLIS = ROUNDS * 300

const cut = (
  what: string,
  name: string,
  most: number,
  chosen: (lines: Readonly<Record<"clients" | "http" | "worker", Line.Line>>) => Line.Line
) =>
  fault(
    what,
    [],
    Effect.gen(function*() {
      const random = chance(what)
      const home = yield* Postgres.home
      const data = path.join(home.folder, "cluster")
      yield* Postgres.initialise(home, data)
      const postgres = yield* Postgres.cluster(home, data)
      yield* postgres.start
      const at = (port: number) => `postgres://slipway:cut-canary-51ab@127.0.0.1:${port}/postgres`
      const [http, worker] = [yield* Line.make(() => postgres.port), yield* Line.make(() => postgres.port)]
      const service = yield* Service.make({
        name,
        database: { url: at(http.port), direct: at(postgres.port) },
        ofWorkers: { DATABASE_URL: at(worker.port) }
      })
      const clients = yield* Line.make(() => Number(new URL(service.urls[0] ?? "").port))
      const line = chosen({ clients, http, worker })
      const url = `http://127.0.0.1:${clients.port}`
      return yield* Effect.promise(async (): Promise<Found> => {
        const sandboxes = Sandboxes.make(service.urls[0] ?? "", service.key)
        const working = await sandboxes.create("[[say ready]]")
        await sandboxes.turns(working, 1)
        const load = Load.start({ urls: [url], key: service.key, name, perSecond: 25, terminate: true })
        const ids: Array<string> = []
        const known = setInterval(() => ids.splice(0, ids.length, ...load.created.values()), 100)
        let over = false
        const readers = Readers.make([url], service.key, ids, () => over, random)
        const reading = Promise.all(Array.from({ length: 10 }, () => readers.follow()))
        await sleep(1_000)
        line.cutAfter(most, random)
        const turn = await sandboxes.send(working, "[[slow 10 100]]")
        await sleep(CUT_MILLIS)
        line.mend()
        const backMillis = [await Checks.back(service.urls)]
        await load.stop()
        await sleep(1_000)
        over = true
        clearInterval(known)
        const lost = [...load.wrong]
        const ends = await sandboxes.turns(working, 2)
        if (ends.filter(({ turnId }) => turnId === turn).length !== 1) lost.push(`the turn under way ended as ${JSON.stringify(ends)}`)
        await Promise.race([reading, sleep(20_000)])
        lost.push(...readers.wrong, ...await Readers.logs(service.rows, readers.seen), ...await sandboxes.gaps(working))
        lost.push(...await service.verdict(load))
        if (line.cuts() === 0) lost.push("nothing was cut")
        const cuts = `${line.cuts()} connections cut after up to ${most} bytes`
        return { done: `${cuts}; streams resumed ${readers.resumed()} times; ${Service.summary(load)}`, lost, backMillis }
      })
    })
  )

cut("the network between clients and the service is cut in the middle of messages", "cut-clients", 4_000, ({ clients }) => clients)
cut("the network between an http process and Postgres is cut in the middle of messages", "cut-http", 20_000, ({ http }) => http)
cut("the network between a worker and Postgres is cut in the middle of messages", "cut-worker", 20_000, ({ worker }) => worker)
