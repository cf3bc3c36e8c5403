/** Browsers of people who are signed in, and what they read on pages. */
import { assert } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Role } from "@slipway/domain/access/schema/User"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Ids } from "@slipway/domain/ids/Ids"
import { Effect, Redacted } from "effect"
import { ask, type Ask, COOKIE, joined, mintKey, openStream, type Reply } from "./Harness.ts"

/** A name may have several values. */
export type Fields = Readonly<Record<string, string | ReadonlyArray<string>>>

export const encoded = (fields: Fields): string =>
  new URLSearchParams(Object.entries(fields).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))).toString()

/** A file field of a form: a browser without a chosen file sends one without a name. */
export interface ChosenFile {
  readonly name: string
  readonly type: string
  readonly content: string | Uint8Array
}

const BOUNDARY = "----slipway-test-boundary"

/** A form with files, as a browser sends it. */
const multipart = (fields: Fields, files: ReadonlyArray<ChosenFile>): Uint8Array => {
  const head = (line: string) => Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; ${line}\r\n\r\n`)
  const end = Buffer.from("\r\n")
  return Buffer.concat([
    ...Object.entries(fields).flatMap(([name, value]) => [value].flat().flatMap((one) => [head(`name="${name}"`), Buffer.from(one), end])),
    ...files.flatMap(({ content, name, type }) => [
      head(`name="file"; filename="${name}"\r\nContent-Type: ${type}`),
      typeof content === "string" ? Buffer.from(content) : content,
      end
    ]),
    Buffer.from(`--${BOUNDARY}--\r\n`)
  ])
}

/** A new session of the user in the grant. Forms carry what a page of the session has; `fields` may say something else. */
export const browserOf = Effect.fnUntraced(function*(userId: string, grantId: string) {
  const sessions = yield* Sessions
  const { session, token } = yield* sessions.signIn(userId, null)
  yield* sessions.chooseGrant(session, grantId)
  const cookie = `${COOKIE}=${Redacted.value(token)}`
  const csrf = Redacted.value(sessions.csrfToken(token))
  return {
    grantId,
    cookie,
    get: (path: string, headers: Ask["headers"] = {}) => ask(path, { headers: { cookie, ...headers } }),
    follow: (path: string, headers: Ask["headers"] = {}) => openStream(path, { headers: { cookie, ...headers } }),
    postFiles: (path: string, fields: Fields, files: ReadonlyArray<ChosenFile>) =>
      ask(path, {
        body: multipart({ csrf, place: grantId, ...fields }, files),
        headers: { cookie, "content-type": `multipart/form-data; boundary=${BOUNDARY}` }
      }),
    post: (path: string, fields: Fields = {}, headers: Ask["headers"] = {}) =>
      ask(path, {
        body: encoded({ csrf, place: grantId, ...fields }),
        headers: { cookie, "content-type": "application/x-www-form-urlencoded", ...headers }
      })
  }
})

/** A person who is signed in and works in the grant of that name, and a key of the grant. */
export const visitor = Effect.fnUntraced(function*(grant: string) {
  const minted = yield* mintKey({ grant })
  return { key: minted.key, ...(yield* browserOf(yield* joined(`person-of-${grant}`), minted.grant.id)) }
})

/** A person of this role who is signed in, and a key. `organization`: a new one; `null` is that of the service's owner. */
export const visitorIn = Effect.fnUntraced(function*(grant: string, role: Role, organization: string | null = null) {
  const members = yield* Members
  const login = `${role}-of-${grant}`
  const userId = yield* joined(login)
  const of = organization === null ? null : (yield* members.createOrganization(organization)).organization
  if (of !== null) yield* (yield* Access).createGrant(grant, of.id)
  if (role !== "member" || of !== null) yield* members.add(of?.id ?? null, login, role)
  const key = yield* mintKey({ grant, userId })
  return { key: key.key, ...(yield* browserOf(userId, key.grant.id)) }
})

/** A session of the user in a new grant of the owner's organization. */
export const visitorAs = Effect.fnUntraced(function*(userId: string) {
  return yield* browserOf(userId, (yield* mintKey({ grant: yield* (yield* Ids).uuid7 })).grant.id)
})
export const owner = Effect.flatMap(MemberStore, (members) => Effect.flatMap(members.owner, ({ userId }) => visitorAs(userId)))
export type Visitor = Effect.Success<typeof owner>

/** The text of a page, without markup and runs of spaces. */
export const textOf = ({ text }: Reply): string => text.replaceAll(/<[^>]*>/gu, " ").replaceAll(/\s+/gu, " ")

export const redirected = (reply: Reply, to: string): void =>
  assert.deepStrictEqual([reply.status, reply.headers["location"]], [303, to], reply.text)
