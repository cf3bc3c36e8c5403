/** Processes follow each other on one database; one dies when its connections are cut between two statements. */
import { PgClient } from "@effect/sql-pg"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as DurabilityContract from "@slipway/testing/contracts/sandbox/DurabilityContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer, Redacted } from "effect"
import { connect, type Socket } from "node:net"
import { Duplex } from "node:stream"
import * as AuditLogPostgres from "../src/audit-log/AuditLogPostgres.ts"
import * as Migrations from "../src/Migrations.ts"
import { storesOver } from "./Stores.ts"

/** The messages of PostgreSQL's protocol in a stream of bytes. `typed`: the first has no type, as that which begins a session. */
const messages = (isTyped: boolean) => {
  let rest = Buffer.alloc(0)
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    const found: Array<{ readonly type: string; readonly bytes: Buffer }> = []
    for (;;) {
      const head = isTyped ? 1 : 0
      const end = rest.length < head + 4 ? Number.POSITIVE_INFINITY : head + rest.readInt32BE(head)
      if (rest.length < end) return found
      found.push({ type: isTyped ? String.fromCharCode(rest[0] ?? 0) : "", bytes: rest.subarray(0, end) })
      rest = rest.subarray(end)
      isTyped = true
    }
  }
}

/** The connections of one process, which are cut together. */
class Connections {
  readonly #server: () => Socket
  readonly #open = new Set<Socket>()
  #statements = Number.POSITIVE_INFINITY
  #isDead = false
  constructor(server: () => Socket) {
    this.#server = server
  }

  /** From now on so many statements are carried out. The answer to the last one is lost, and the others are never sent. */
  killAfter(statements: number) {
    this.#statements = statements
  }

  #kill() {
    this.#isDead = true
    for (const socket of this.#open) socket.destroy(new Error("killed"))
  }

  readonly connect = (): Duplex => {
    const server = this.#server()
    this.#open.add(server)
    if (this.#isDead) server.destroy(new Error("killed"))
    /** How often the server is to say that it is ready for more: when the session began, and after each statement. */
    let awaited = 1
    const [sent, received] = [messages(false), messages(true)]
    const client: Duplex = new Duplex({
      read: () => {},
      write: (chunk: Buffer, _encoding, done) => {
        for (const { bytes, type } of sent(chunk)) {
          // Further messages belong to the next statement; a statement that has parts is carried out with its last.
          if (this.#statements <= 0) break
          server.write(bytes)
          if (type === "Q" || type === "S") {
            awaited++
            this.#statements--
          }
        }
        done()
      },
      destroy: (error, done) => {
        server.destroy()
        done(error)
      }
    })
    server.on("data", (chunk: Buffer) => {
      awaited -= received(chunk).filter(({ type }) => type === "Z").length
      if (this.#statements <= 0 && awaited === 0) this.#kill()
      else client.push(chunk)
    })
    server.on("connect", () => client.emit("connect"))
    server.on("error", (error) => client.destroy(error))
    server.on("close", () => {
      this.#open.delete(server)
      client.destroy()
    })
    return client
  }
}

const addressOf = ({ hostname, port, searchParams }: URL) => {
  const folder = searchParams.get("host") ?? decodeURIComponent(hostname)
  return folder.startsWith("/")
    ? { path: `${folder}/.s.PGSQL.${port || searchParams.get("port") || 5432}` }
    : { host: hostname, port: Number(port || 5432) }
}

const storage = Layer.effect(
  DurabilityContract.Storage,
  Effect.map(TestPostgres.database(Migrations.layer), (url) =>
    DurabilityContract.Storage.of({
      start: Effect.suspend(() => {
        const connections = new Connections(() => connect(addressOf(new URL(url))))
        const client = PgClient.layer({
          url: Redacted.make(url),
          stream: connections.connect,
          startupParameters: { TimeZone: "UTC" },
          maxConnections: 4
        })
        const layer = Layer.merge(storesOver, AuditLogPostgres.layer).pipe(
          Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
          Layer.provideMerge(client)
        )
        return Effect.map(Layer.build(layer), (stores) => ({
          stores,
          killAtWrite: (n) => Effect.sync(() => connections.killAfter(n))
        }))
      })
    }))
)

register(DurabilityContract.suite("postgres", storage))
