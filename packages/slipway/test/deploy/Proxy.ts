/** A proxy as a process, and asking it. */
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { request } from "node:https"
import path from "node:path"
import { certificate } from "../../src/commands/demo/DemoCertificate.ts"

export interface Ports {
  readonly plain: number
  readonly secure: number
}

/** Writes `key.pem` and `cert.pem` for the public address into the folder. */
export const certify = (at: string, publicUrl: string) => {
  const { key, cert } = certificate(new URL(publicUrl).hostname, Date.now())
  writeFileSync(path.join(at, "key.pem"), key)
  writeFileSync(path.join(at, "cert.pem"), cert)
}

/** The command that runs Caddy with those sites, after the files it needs are written to the folder. */
export const caddy = (at: string, { plain, secure }: Ports, sites: string) => {
  // Its administration would take the same port for every Caddy of a machine.
  writeFileSync(path.join(at, "Caddyfile"), `{\n\tadmin off\n\thttp_port ${plain}\n\thttps_port ${secure}\n}\n${sites}`)
  return ["caddy", "run", "--adapter", "caddyfile", "--config", path.join(at, "Caddyfile")] as const
}

/** Runs it until the scope closes. */
export const launched = (
  at: string,
  [program, ...args]: readonly [program: string, ...args: ReadonlyArray<string>],
  environment: Readonly<Record<string, string>> = {}
) =>
  SpawnedProgram.scoped(program, args, {
    // Caddy keeps what it learns where its user does.
    env: { ...process.env, HOME: at, XDG_DATA_HOME: at, XDG_CONFIG_HOME: at, ...environment }
  })

export interface Reply {
  readonly status: number | undefined
  readonly headers: NodeJS.Dict<string | Array<string>>
  readonly body: string
}

/** Asks the proxy for a WebSocket: the status of the answer, and the first text that comes. */
export const upgrading = (publicUrl: string, port: number, headers: Readonly<Record<string, string>>) => (address: string) =>
  Effect.callback<{ readonly status: number | undefined; readonly text: string }>((resume) => {
    const { hostname, pathname } = new URL(publicUrl)
    const asked = request({
      host: "127.0.0.1",
      port,
      servername: hostname,
      rejectUnauthorized: false,
      agent: false,
      path: (pathname === "/" ? "" : pathname) + address,
      headers: {
        host: hostname,
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        ...headers
      }
    })
    asked.on("response", ({ statusCode }) => resume(Effect.succeed({ status: statusCode, text: "" })))
    asked.on("error", () => resume(Effect.succeed({ status: undefined, text: "" })))
    asked.on("upgrade", ({ statusCode }, socket, head) => {
      let said = ""
      const hear = (bytes: Buffer) => {
        said += bytes.toString("latin1")
        if (said.length > 0) resume(Effect.succeed({ status: statusCode, text: said }))
      }
      socket.on("data", hear).on("error", () => {})
      hear(head)
    })
    asked.end()
    return Effect.sync(() => asked.destroy())
  })

/** Asks the proxy as a client that resolved the public name. `until`: the reply is broken off as soon as it has that. */
export const asking = (publicUrl: string, port: number) =>
(address: string, { body, headers, localAddress, until }: {
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly localAddress?: string
  readonly until?: string
} = {}) =>
  Effect.callback<Reply>((resume) => {
    const { hostname, pathname } = new URL(publicUrl)
    const asked = request({
      host: "127.0.0.1",
      port,
      servername: hostname,
      rejectUnauthorized: false,
      method: body === undefined ? "GET" : "POST",
      agent: false,
      ...localAddress === undefined ? {} : { localAddress },
      path: (pathname === "/" ? "" : pathname) + address,
      headers: { host: hostname, ...body === undefined ? {} : { "content-type": "application/json" }, ...headers }
    }, (response) => {
      let said = ""
      const answer = () => resume(Effect.succeed({ status: response.statusCode, headers: response.headers, body: said }))
      response.on("data", (bytes: Buffer) => {
        said += bytes.toString()
        if (until === undefined || !said.includes(until)) return
        answer()
        asked.destroy()
      })
      response.on("error", answer).on("end", answer)
    })
    asked.on("error", () => resume(Effect.succeed({ status: undefined, headers: {}, body: "" })))
    asked.end(body)
  })
