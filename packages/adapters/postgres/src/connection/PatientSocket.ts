/**
 * Sockets to Postgres that give up a server which has become silent. Where packets are dropped or the server is stopped, the
 * kernel goes on for a quarter of an hour, and a driver that waits for an answer does so for as long.
 */
import { Duration } from "effect"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { SessionSettings, type Settings } from "./SessionSettings.ts"

/** Tells when something was sent and nothing has come for `silence` since. `null`: never. */
export class Patience {
  #waiting = false
  readonly #timer: NodeJS.Timeout | null

  constructor(silence: Duration.Duration | null, giveUp: (error: Error) => void) {
    this.#timer = silence === null ? null : setTimeout(() => {
      if (this.#waiting) giveUp(new Error(`Postgres has sent nothing for ${Duration.format(silence)}`))
    }, Duration.toMillis(silence)).unref()
  }

  sent() {
    if (this.#waiting) return
    this.#waiting = true
    this.#timer?.refresh()
  }

  received() {
    this.#waiting = false
  }

  stop() {
    clearTimeout(this.#timer ?? undefined)
  }
}

/** A socket without encryption. */
export class PatientSocket extends Socket {
  readonly #patience: Patience
  readonly #settings: SessionSettings

  constructor(silence: Duration.Duration | null, settings: Settings = {}) {
    super()
    this.#settings = new SessionSettings(settings, (bytes) => this.write(bytes))
    this.#patience = new Patience(silence, (error) => this.destroy(error))
    this.once("close", () => this.#patience.stop())
  }

  override _write(...sent: Parameters<Duplex["_write"]>) {
    this.#patience.sent()
    super._write(...sent)
  }

  override _writev(...sent: Parameters<NonNullable<Duplex["_writev"]>>) {
    this.#patience.sent()
    super._writev?.(...sent)
  }

  override push(...received: Parameters<Duplex["push"]>) {
    this.#patience.received()
    const [bytes, ...more] = received
    if (!Buffer.isBuffer(bytes)) return super.push(...received)
    const passed = this.#settings.received(bytes)
    return passed.length === 0 || super.push(passed, ...more)
  }
}
