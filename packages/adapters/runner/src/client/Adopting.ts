/** The worker's side of `Adoption`: tells a runner that waits whose it is. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { Data, Effect } from "effect"
import { X509Certificate } from "node:crypto"
import { request as httpRequest } from "node:http"
import { connect as connectTls } from "node:tls"
import { type Adoption, PATH, PATIENCE_MILLIS } from "../wire/Adoption.ts"
import { type Identity, secureContext } from "../wire/Identity.ts"

export interface Options {
  readonly address: { readonly host: string; readonly port: number }
  /** The worker's side of the pool's keys. */
  readonly pool: Identity
  readonly adoption: Adoption
}

/**
 * Who was met. `adopted`: it waited, and is the sandbox's runner now. `ours`: it was already. `another`: it is the runner of something
 * else, and told nothing.
 */
export type Met = "adopted" | "ours" | "another"

/** It was not reached, or refuses. Another try may go better. */
export class NotAdopted extends Data.TaggedError("NotAdopted")<{ readonly detail: string }> {
  override get message() {
    return this.detail
  }
}

const MAX_WORDS = 200

/** Listens once it answers `adopted` or `ours`. Nothing is sent to who has not shown the pool's certificate, and that it has its key. */
export const adopt = ({ address, adoption, pool }: Options): Effect.Effect<Met, NotAdopted> =>
  Effect.callback<Met, NotAdopted>((resume) => {
    const body = JSON.stringify(adoption)
    const isOf = (certificate: X509Certificate, pem: string) => certificate.raw.equals(new X509Certificate(pem).raw)
    // Whose certificate it is, is looked at below: it may be one of two.
    const socket = connectTls({ ...address, ...secureContext(pool), rejectUnauthorized: false, checkServerIdentity: () => undefined })
    const settle = (answer: Effect.Effect<Met, NotAdopted>) => {
      clearTimeout(timer)
      resume(answer)
      socket.destroy()
    }
    const fail = (detail: string) => settle(Effect.fail(new NotAdopted({ detail })))
    const onError = (error: Error) => fail(`its runner is not reached (${codeOf(error) ?? "broken"})`)
    const timer = setTimeout(() => fail("its runner does not answer"), 2 * PATIENCE_MILLIS)
    socket.on("error", onError)
    socket.on("close", () => fail("its runner closed the connection"))
    socket.once("secureConnect", () => {
      const certificate = socket.getPeerX509Certificate()
      if (certificate === undefined) return fail("its runner has no certificate")
      if (isOf(certificate, adoption.settings.identity.certificate)) return settle(Effect.succeed("ours"))
      if (!isOf(certificate, pool.peer)) return settle(Effect.succeed("another"))
      const request = httpRequest({
        createConnection: () => socket,
        method: "POST",
        path: PATH,
        headers: { host: "runner", "content-type": "application/json", "content-length": Buffer.byteLength(body), connection: "close" }
      }, (response) => {
        if (response.statusCode === 200) return settle(Effect.succeed("adopted"))
        let words = ""
        response.setEncoding("utf8")
        response.on("data", (text: string) => words = (words + text).slice(0, MAX_WORDS))
        response.on("close", () => fail(`its runner refuses: ${words.trim() || response.statusCode}`))
      })
      request.on("error", onError)
      request.end(body)
    })
    return Effect.sync(() => {
      clearTimeout(timer)
      socket.destroy()
    })
  })
