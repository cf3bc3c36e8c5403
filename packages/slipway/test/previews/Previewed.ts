/** A service with a sandbox in which a server listens, and a client that says what it likes. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import { Effect, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, writeFileSync } from "node:fs"
import { type IncomingHttpHeaders, request } from "node:http"
import { connect, type Socket } from "node:net"
import path from "node:path"
import type { Server } from "../commands/SlipwayProcess.ts"

/** A repository of the machine with these files, and a server. */
export const repository = Effect.fnUntraced(function*(folder: string, name: string, files: Readonly<Record<string, string>>) {
  const at = path.join(folder, name)
  for (const [file, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(at, file)), { recursive: true })
    writeFileSync(path.join(at, file), content)
  }
  cpSync(path.join(import.meta.dirname, "server.mjs"), path.join(at, "server.mjs"))
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", at, ...args], { stdio: "pipe" })
  git("init", "--quiet", "--initial-branch=main")
  git("add", ".")
  git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")
  yield* (yield* LocalRepositories).register(RepoName.make(`acme/${name}`), at)
})

/** For an agent: starts the program, and leaves it running. */
export const started = (program: string): string => `[[shell (setsid ${program} >/dev/null 2>&1 &)]] [[say Started.]]`

const api = ({ key, url }: Server) => async (method: string, address: string, body?: unknown) => {
  const response = await fetch(`${url}/api/public/v1/sandboxes${address}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (response.status >= 300) throw new Error(await response.text())
  return await response.json()
}

/** A sandbox of the repository whose first turn has ended. */
export const sandboxOf = (server: Server, repo: string, prompt: string) =>
  Effect.promise(async (): Promise<string> => {
    const ask = api(server)
    const { id } = await ask("POST", "", { repos: [{ fullName: `acme/${repo}` }], title: "Preview", prompt })
    for (;;) {
      const { data } = await ask("GET", `/${id}/events?limit=100`)
      if (data.some(({ type }: { readonly type: string }) => type === "turn.completed")) return id
      await new Promise((done) => setTimeout(done, 50))
    }
  })

export const terminate = (server: Server, id: string) => Effect.promise(() => api(server)("POST", `/${id}/terminate`))

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** Whether the answer broke off. */
  readonly isCut: boolean
}

export interface Asked {
  readonly host?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>
  readonly body?: string
}

/** One request to the service under any name. `heard` is called with each part of the answer. */
export const ask = (
  { url }: Server,
  address: string,
  { body, headers = {}, host, method = "GET" }: Asked = {},
  heard: () => void = () => {}
) =>
  Effect.callback<Answer>((resume) => {
    const { hostname, port, host: own } = new URL(url)
    request({ hostname, port, method, path: address, agent: false, headers: { host: host ?? own, ...headers } }, (response) => {
      let text = ""
      const done = (isCut: boolean) => resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, text, isCut }))
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk
        heard()
      }).on("end", () => done(false)).on("error", () => done(true))
    }).on("error", (error) => resume(Effect.die(error))).end(body)
  })

/** Sends bytes to the service, and returns all that comes until the connection closes. `heard` is called with all that came so far. */
export const sendRaw = ({ url }: Server, text: string, heard: (answer: string, socket: Socket) => void = () => {}) =>
  Effect.callback<string>((resume) => {
    const { hostname, port } = new URL(url)
    let answer = ""
    const socket = connect(Number(port), hostname, () => socket.write(text))
    socket.setEncoding("latin1").on("error", () => {})
    socket.on("data", (chunk: string) => {
      answer += chunk
      heard(answer, socket)
    })
    socket.on("close", () => resume(Effect.succeed(answer)))
    return Effect.sync(() => socket.destroy())
  })

/** Opens a WebSocket of the preview, and sends `hi` once. Returns all that came until it closed. */
export const talk = (server: Server, host: string, cookie: string, origin: string, echoed: () => void = () => {}) =>
  sendRaw(
    server,
    `GET /ws HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\nOrigin: ${origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    (answer, socket) => {
      if (answer.endsWith("\r\n\r\n")) socket.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]))
      if (answer.endsWith("\u0081\u0002hi")) echoed()
    }
  )

/** The user, signed in anew. */
const signedIn = Effect.fnUntraced(function*(userId: string) {
  const sessions = yield* Sessions
  const { session, token } = yield* sessions.signIn(userId, null)
  const [grant] = yield* sessions.grantsOf(userId)
  return {
    userId,
    session,
    token,
    cookie: `__Host-slipway_session=${Redacted.value(token)}`,
    csrf: Redacted.value(sessions.csrfToken(token)),
    place: grant?.id ?? ""
  }
})
export type Person = Effect.Success<ReturnType<typeof signedIn>>

/** The owner, signed in. */
export const owner = Effect.flatMap(Effect.flatMap(MemberStore, (members) => members.owner), ({ userId }) => signedIn(userId))

/** A member of the organization, signed in. */
export const member = Effect.fnUntraced(function*(login: string) {
  const members = yield* Members
  const { user } = yield* members.add(null, login, "member")
  yield* members.approve(user.id)
  return yield* signedIn(user.id)
})

/** The answer to the form that leads to a preview. */
export const openForm = (
  server: Server,
  { cookie, csrf, place }: Person,
  id: string,
  port: number,
  headers: Readonly<Record<string, string>> = { "sec-fetch-site": "same-origin" }
) =>
  ask(server, `/sandboxes/${id}/preview`, {
    method: "POST",
    headers: { cookie, "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams({ csrf, place, port: `${port}` }).toString()
  })

export const hostOf = ({ url }: Server, id: string, port: number): string => `${port}-${id.slice(2)}.localhost:${new URL(url).port}`

/** The cookie that an answer sets. */
export const cookieOf = ({ headers }: Answer): string => headers["set-cookie"]?.[0]?.split(";")[0] ?? ""

/** Opens the preview as a browser does, and returns its cookie. */
export const enter = Effect.fnUntraced(function*(server: Server, person: Person, id: string, port: number) {
  const { headers } = yield* openForm(server, person, id, port)
  const { pathname, search } = new URL(headers.location ?? "http://none.invalid")
  return cookieOf(yield* ask(server, pathname + search, { host: hostOf(server, id, port) }))
})
