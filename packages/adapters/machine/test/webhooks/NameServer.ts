/** A name server of this machine, which tells addresses (RFC 1035, section 4) or is silent. */
import { Effect } from "effect"
import { createSocket } from "node:dgram"

const A = 1

export interface NameServer {
  /** `address:port`. */
  readonly at: string
  /** Names that were asked for, each once. */
  readonly asked: ReadonlySet<string>
}

/** `told`: IPv4 addresses by name; of any other name nothing is said. `heard`: called with every new name. */
export const start = (told: Readonly<Record<string, ReadonlyArray<string>>>, heard: (name: string) => void = () => {}) =>
  Effect.acquireRelease(
    Effect.callback<NameServer & { readonly close: () => void }>((resume) => {
      const asked = new Set<string>()
      const socket = createSocket("udp4")
      socket.on("message", (query, { address, port }) => {
        const labels: Array<string> = []
        let end = 12
        for (let length = query.readUInt8(end); length > 0; length = query.readUInt8(end)) {
          labels.push(query.toString("latin1", end + 1, end + 1 + length))
          end += 1 + length
        }
        const name = labels.join(".")
        if (!asked.has(name)) {
          asked.add(name)
          heard(name)
        }
        const addresses = told[name]
        if (addresses === undefined) return
        const answers = query.readUInt16BE(end + 1) === A ? addresses : []
        const header = Buffer.from(query.subarray(0, 12))
        // A response without error, of one question.
        header.writeUInt16BE(0x8180, 2)
        for (const [at, count] of [[4, 1], [6, answers.length], [8, 0], [10, 0]] as const) header.writeUInt16BE(count, at)
        const records = answers.map((one) => Buffer.from([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 60, 0, 4, ...one.split(".").map(Number)]))
        socket.send(Buffer.concat([header, query.subarray(12, end + 5), ...records]), port, address)
      })
      socket.bind(0, "127.0.0.1", () => {
        resume(Effect.succeed({ at: `127.0.0.1:${socket.address().port}`, asked, close: () => socket.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )
