/**
 * A socket to Postgres that is closed when the server stays silent. When packets are dropped or the server is stopped, the kernel
 * retries for a quarter of an hour, and the driver waits as long for an answer.
 */
import { Duration } from "effect"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { SessionSettings, type Settings } from "./SessionSettings.ts"

/** Calls `giveUp` once nothing was received for `silence` after something was sent. `null`: never. */
export class SilenceTimer {
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
export class TimeoutSocket extends Socket {
  readonly #silenceTimer: SilenceTimer
  readonly #settings: SessionSettings

  constructor(silence: Duration.Duration | null, settings: Settings = {}) {
    super()
    this.#settings = new SessionSettings(settings, (bytes) => this.write(bytes))
    this.#silenceTimer = new SilenceTimer(silence, (error) => this.destroy(error))
    this.once("close", () => this.#silenceTimer.stop())
  }

  override _write(...sent: Parameters<Duplex["_write"]>) {
    this.#silenceTimer.sent()
    super._write(...sent)
  }

  override _writev(...sent: Parameters<NonNullable<Duplex["_writev"]>>) {
    this.#silenceTimer.sent()
    super._writev?.(...sent)
  }

  override push(...received: Parameters<Duplex["push"]>) {
    this.#silenceTimer.received()
    const [bytes, ...more] = received
    if (!Buffer.isBuffer(bytes)) return super.push(...received)
    const passed = this.#settings.received(bytes)
    return passed.length === 0 || super.push(passed, ...more)
  }
}
