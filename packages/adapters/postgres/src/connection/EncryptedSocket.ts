/**
 * A connection to Postgres that is encrypted as `sslmode` says. The driver speaks to it as to a plain one: its `prefer` neither
 * encrypts without verification nor falls back when the server turns it away, and its `allow` begins with encryption.
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import type { Duration } from "effect"
import { connect, type NetConnectOpts } from "node:net"
import { Duplex } from "node:stream"
import * as Tls from "node:tls"
import { type SslMode, UnusableUrl } from "./ConnectionUrl.ts"
import { SessionSettings, type Settings } from "./SessionSettings.ts"
import { SilenceTimer } from "./TimeoutSocket.ts"

type Way = "encrypted" | "plain"

/** The attempts, in their order. */
const WAYS: Readonly<Record<SslMode, ReadonlyArray<Way>>> = {
  disable: ["plain"],
  allow: ["plain", "encrypted"],
  prefer: ["encrypted", "plain"],
  require: ["encrypted"],
  "verify-ca": ["encrypted"],
  "verify-full": ["encrypted"]
}

/** Length and code of the request for encryption (PostgreSQL 18, 54.7: SSLRequest). */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const [YES, NO, ERROR_RESPONSE] = [0x53, 0x4e, 0x45]

export class EncryptedSocket extends Duplex {
  readonly #address: NetConnectOpts
  readonly #mode: SslMode
  readonly #options: Tls.ConnectionOptions
  readonly #ways: Array<Way>
  readonly #silenceTimer: SilenceTimer
  readonly #settings: SessionSettings
  /** The driver's first message, sent before any answer: the next attempt repeats it. */
  readonly #first: Array<Buffer> = []
  /** The error with which the server turned the first way away. */
  #turnedAway: Buffer | null = null
  #answered = false
  #isReady = false
  #line: Duplex

  constructor(
    address: NetConnectOpts,
    mode: SslMode,
    options: Tls.ConnectionOptions,
    silence: Duration.Duration | null,
    settings: Settings = {}
  ) {
    super({ allowHalfOpen: false })
    this.#settings = new SessionSettings(settings, (bytes) => this.write(bytes))
    this.#address = address
    this.#mode = mode
    this.#options = options
    this.#ways = [...WAYS[mode]]
    this.#silenceTimer = new SilenceTimer(silence, (error) => this.destroy(error))
    this.#line = this.#begin()
  }

  /** Takes the next way. */
  #begin(): Duplex {
    const way = this.#ways.shift()
    const socket = connect(this.#address)
    this.#watch(socket)
    socket.once("connect", () => {
      if (way === "plain") return this.#open(socket)
      socket.once("data", (answer) => this.#negotiate(socket, answer))
      socket.write(SSL_REQUEST)
    })
    return socket
  }

  /** Errors of a line that is no longer used are ignored. */
  #watch(line: Duplex) {
    line.on("error", (error) => {
      if (line === this.#line) this.destroy(this.#explained(error))
    })
    line.on("close", () => {
      if (line === this.#line) this.destroy()
    })
  }

  /** Alerts of the other side's TLS come in the middle of a connection, such as one about a certificate that we did not show. */
  #explained(error: Error): Error {
    return this.#answered || !String(codeOf(error)).startsWith("ERR_SSL") ? error : this.#refused(error.message)
  }

  #refused(why: string) {
    return new UnusableUrl(`the connection cannot be encrypted as sslmode=${this.#mode} asks for: ${why.trimEnd().replace(/:$/u, "")}`)
  }

  /** Why the two sides did not agree, in TLS' words. */
  #disagreed(error: Error) {
    const code = String(codeOf(error))
    if (code === "ECONNRESET") return error
    const isOfChain = !code.startsWith("ERR_") && this.#options.rejectUnauthorized === true
    return this.#refused(isOfChain ? `${error.message} (sslrootcert names the file with its CA)` : error.message)
  }

  /** The last way leads nowhere. If the server answered on the one before, its answer says more. */
  #giveUp(error: Error) {
    if (this.#turnedAway === null) return void this.destroy(error)
    this.push(this.#turnedAway)
    this.push(null)
  }

  /** Gives up this way for the next one, if there is one. */
  #another(): boolean {
    if (this.#ways.length === 0) return false
    const line = this.#line
    this.#isReady = false
    this.#line = this.#begin()
    line.destroy()
    return true
  }

  #negotiate(socket: Duplex, answer: Buffer) {
    // More would come from somebody between us and the server, in the hope that it is taken for what was encrypted.
    if (answer.length !== 1 || answer[0] !== YES && answer[0] !== NO) {
      return void this.destroy(new Error("Postgres answered the request for encryption with something else than yes or no"))
    }
    if (answer[0] === NO) {
      if (this.#ways.shift() === "plain") return this.#open(socket)
      return this.#giveUp(this.#refused("the server does not offer TLS"))
    }
    const secure = Tls.connect({ ...this.#options, socket })
    this.#line = secure
    const failed = (error: Error) => {
      if (secure !== this.#line || this.#another()) return
      this.#giveUp(this.#disagreed(error))
    }
    secure.once("error", failed)
    secure.once("secureConnect", () => {
      this.#watch(secure)
      secure.off("error", failed)
      this.#open(secure)
    })
  }

  /** The line is as it shall be. */
  #open(line: Duplex) {
    this.#isReady = true
    line.on("data", (bytes: Buffer) => {
      if (line !== this.#line) return
      // Turned away at once: with or without encryption may be all that was wrong.
      if (!this.#answered && bytes[0] === ERROR_RESPONSE && this.#another()) {
        this.#turnedAway = bytes
        return
      }
      this.#answered = true
      this.#first.length = 0
      this.#silenceTimer.received()
      const passed = this.#settings.received(bytes)
      if (passed.length > 0 && !this.push(passed)) line.pause()
    })
    line.on("end", () => {
      if (line === this.#line) this.push(null)
    })
    for (const bytes of this.#first) line.write(bytes)
  }

  override _read() {
    if (this.#isReady) this.#line.resume()
  }

  override _write(bytes: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void) {
    this.#silenceTimer.sent()
    if (!this.#answered) this.#first.push(bytes)
    if (this.#isReady) this.#line.write(bytes, encoding, done)
    else done()
  }

  override _final(done: () => void) {
    this.#line.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void) {
    this.#silenceTimer.stop()
    this.#line.destroy()
    done(error)
  }
}
