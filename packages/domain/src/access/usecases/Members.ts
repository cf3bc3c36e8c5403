/** Use cases of administrators: approvals, memberships and suspended organizations. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Ids } from "../../ids/Ids.ts"
import { Hints } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type MemberNotFound, MemberStore, OrganizationNotFound, UserNotFound } from "../ports/MemberStore.ts"
import { type Handle, handleOf, type Member, type Organization, type Role, type User } from "../rules/User.ts"
import { REVOCATIONS } from "./Access.ts"

/** The text is not a user's id, e-mail address or GitHub login. Retrying does not help. */
export class InvalidHandle extends Schema.TaggedError<InvalidHandle>()("InvalidHandle", { text: Schema.String }) {
  override get message() {
    return `${this.text} names no user: give an id (user_…), an e-mail address or a GitHub login.`
  }
}

type NoSuchUser = InvalidHandle | UserNotFound | StoreUnavailable
type NoSuchOrganization = OrganizationNotFound | StoreUnavailable

/**
 * Users are identified by id, e-mail address or GitHub login. Organizations are identified by id or name; `null` is the owner's. A lost
 * right takes effect on the next request of any process.
 */
export class Members extends Context.Service<Members, {
  organization(idOrName: string | null): Effect.Effect<Organization, NoSuchOrganization>
  /** Makes the organization, or returns the one of that name. It has no members and no grants. */
  createOrganization(name: string): Effect.Effect<{ readonly organization: Organization; readonly made: boolean }, StoreUnavailable>
  user(handle: string): Effect.Effect<User, NoSuchUser>
  /** Allows the user to mint keys. */
  approve(user: string): Effect.Effect<User, NoSuchUser>
  /** Forbids the user to mint keys. Existing keys stay valid until the member is removed or the keys are revoked. */
  disapprove(user: string): Effect.Effect<User, NoSuchUser>
  /** A new address or login makes a user who is not approved. */
  add(organization: string | null, user: string, role: Role): Effect.Effect<Member, NoSuchUser | NoSuchOrganization>
  remove(organization: string | null, user: string): Effect.Effect<Member, MemberNotFound | NoSuchUser | NoSuchOrganization>
  suspend(organization: string): Effect.Effect<Organization, NoSuchOrganization>
  resume(organization: string): Effect.Effect<Organization, NoSuchOrganization>
}>()("@slipway/domain/Members") {
  static readonly layer = Layer.effect(
    Members,
    Effect.gen(function*() {
      const store = yield* MemberStore
      const ids = yield* Ids
      const hints = yield* Hints

      const parse = (text: string): Effect.Effect<Handle, InvalidHandle> => {
        const handle = handleOf(text)
        return handle === null ? Effect.fail(new InvalidHandle({ text })) : Effect.succeed(handle)
      }
      const user = Effect.fnUntraced(function*(text: string) {
        return (yield* store.findUser(yield* parse(text))) ?? (yield* new UserNotFound({ user: text }))
      })
      const organization = Effect.fnUntraced(function*(idOrName: string | null) {
        const wanted = idOrName ?? (yield* store.owner).organizationId
        const all = yield* store.organizations
        return all.find(({ id }) => id === wanted) ?? all.find(({ name }) => name === wanted) ??
          (yield* new OrganizationNotFound({ organization: wanted }))
      })
      const userOrNew = Effect.fnUntraced(function*(text: string) {
        const handle = yield* parse(text)
        const known = yield* store.findUser(handle)
        if (known !== null) return known
        if (handle._tag === "Id") return yield* new UserNotFound({ user: text })
        return yield* store.addUser({
          id: `user_${yield* ids.ulid}`,
          name: text,
          email: handle._tag === "Email" ? handle.email : null,
          githubLogin: handle._tag === "GithubLogin" ? handle.login : null,
          createdAt: yield* DateTime.now
        })
      })

      return Members.of({
        organization,
        createOrganization: Effect.fn("Members.createOrganization")(function*(name) {
          // Makes the owner's organization first, so that its name is not free for another.
          yield* store.owner
          return yield* store.createOrganization({ id: yield* ids.uuid7, name, createdAt: yield* DateTime.now })
        }),
        user,
        approve: Effect.fn("Members.approve")(function*(text) {
          return yield* store.approve((yield* user(text)).id, true, yield* DateTime.now)
        }),
        disapprove: Effect.fn("Members.disapprove")(function*(text) {
          return yield* store.approve((yield* user(text)).id, false, yield* DateTime.now)
        }),
        add: Effect.fn("Members.add")(function*(of, text, role) {
          const { id } = yield* organization(of)
          return yield* store.addMember(id, (yield* userOrNew(text)).id, role, yield* DateTime.now)
        }),
        remove: Effect.fn("Members.remove")(function*(of, text) {
          const { id } = yield* organization(of)
          const member = yield* store.removeMember(id, (yield* user(text)).id, yield* DateTime.now)
          yield* hints.publish([REVOCATIONS])
          return member
        }),
        suspend: Effect.fn("Members.suspend")(function*(of) {
          const suspended = yield* store.suspend((yield* organization(of)).id, true, yield* DateTime.now)
          yield* hints.publish([REVOCATIONS])
          return suspended
        }),
        resume: Effect.fn("Members.resume")(function*(of) {
          return yield* store.suspend((yield* organization(of)).id, false, yield* DateTime.now)
        })
      })
    })
  )
}
