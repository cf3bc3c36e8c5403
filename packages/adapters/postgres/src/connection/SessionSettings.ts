/**
 * Settings of a session, made by a statement before the driver has its connection. As parameters of the start, poolers refuse them:
 * PgBouncer knows few, and not `lock_timeout`. Messages are PostgreSQL 18, 54.7.
 */

/** `name`: of a setting of Postgres; values without quotes. */
export type Settings = Readonly<Record<string, string>>

const [READY, COMPLETE] = ["Z".charCodeAt(0), "C".charCodeAt(0)]
/** A message's type and length. */
const HEAD = 5

const queryOf = (settings: Settings): Buffer => {
  const text = Buffer.from(`${Object.entries(settings).map(([name, value]) => `SET ${name} TO '${value}'`).join("; ")}\0`)
  const head = Buffer.alloc(HEAD)
  head.write("Q")
  head.writeUInt32BE(text.length + 4, 1)
  return Buffer.concat([head, text])
}

/** Between the server and the driver, from the beginning of a connection until its settings are made. */
export class SessionSettings {
  readonly #settings: Settings
  readonly #send: (bytes: Buffer) => void
  #state: "starting" | "setting" | "done"
  /** The message with which the server was ready: the driver gets it when the settings are made. */
  #ready: Buffer = Buffer.alloc(0)
  /** The beginning of a message that is not whole yet. */
  #rest: Buffer = Buffer.alloc(0)

  constructor(settings: Settings, send: (bytes: Buffer) => void) {
    this.#settings = settings
    this.#send = send
    this.#state = Object.keys(settings).length === 0 ? "done" : "starting"
  }

  /** The part of the server's bytes that is for the driver. An error meanwhile is passed on: the driver ends the connection. */
  received(bytes: Buffer): Buffer {
    if (this.#state === "done") return bytes
    const all = Buffer.concat([this.#rest, bytes])
    const passed: Array<Buffer> = []
    let at = 0
    while (this.#isUnderWay() && all.length - at >= HEAD) {
      const end = at + 1 + all.readUInt32BE(at + 1)
      if (end > all.length) break
      const message = all.subarray(at, end)
      at = end
      if (message[0] === READY) passed.push(this.#isReady(message))
      else if (this.#state !== "setting" || message[0] !== COMPLETE) passed.push(message)
    }
    this.#rest = all.subarray(at)
    if (!this.#isUnderWay()) {
      passed.push(this.#rest)
      this.#rest = Buffer.alloc(0)
    }
    return Buffer.concat(passed)
  }

  #isUnderWay(): boolean {
    return this.#state !== "done"
  }

  #isReady(message: Buffer): Buffer {
    if (this.#state === "setting") {
      this.#state = "done"
      return this.#ready
    }
    this.#state = "setting"
    this.#ready = Buffer.from(message)
    this.#send(queryOf(this.#settings))
    return Buffer.alloc(0)
  }
}
