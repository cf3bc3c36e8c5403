/** Use cases of device logins: a command asks, a person decides. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Ids } from "../../ids/Ids.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { AccessStore, type Grant, GrantNotFound } from "../ports/AccessStore.ts"
import { Acting, ActingFrom } from "../ports/AuditLog.ts"
import { DeviceLoginStore, type MostOpen } from "../ports/DeviceLoginStore.ts"
import { MemberStore } from "../ports/MemberStore.ts"
import { hint, mint } from "../rules/ApiKey.ts"
import {
  DEVICE_KEY_LIFE,
  DEVICE_LOGIN_LIFE,
  DEVICE_SCOPES,
  type DeviceLogin,
  DeviceLoginRefused,
  INTERVAL,
  USER_CODE_ALPHABET,
  USER_CODE_LENGTH
} from "../rules/DeviceLogin.ts"
import { decide, KeysPerUser, type MintRefused } from "../rules/Minting.ts"
import { draw } from "../rules/Secret.ts"
import type { MintedKey } from "./Access.ts"

/** No login with this code can be decided: the code is unknown, decided or expired. Retrying does not help. */
export class DeviceLoginNotFound extends Schema.TaggedError<DeviceLoginNotFound>()("DeviceLoginNotFound", {}) {
  override get message() {
    return "No machine waits with this code."
  }
}

/** The limits of logins that strangers can store. A login above a limit replaces an older one. */
export const MOST_OPEN: MostOpen = { ofNetwork: 20, ofAll: 10_000 }

/** With as many open logins as allowed, two have the same user code once in 2 million draws. */
const DRAWS = 3

/** A login that began. This is the only time that its codes can be read. */
export interface DeviceLoginBegun {
  /** The secret of the command: 256 random bits. */
  readonly deviceCode: Redacted.Redacted
  /** The code for people, without the hyphen. */
  readonly userCode: string
  readonly life: Duration.Duration
  /** Seconds that the command has to wait between two polls. */
  readonly interval: number
}

/** From a command's request to its key. Strangers may begin a login, a person decides it, and the command fetches the key once. */
export class DeviceLogins extends Context.Service<DeviceLogins, {
  /** `machine`: a valid `Machine`. */
  begin(machine: string): Effect.Effect<DeviceLoginBegun, StoreUnavailable>
  /** The undecided login with this code (see `userCodeOf`). */
  find(userCode: string): Effect.Effect<DeviceLogin, DeviceLoginNotFound | StoreUnavailable>
  /** Approves the login for this person and grant. The person must be allowed to mint the key now and when the command fetches it. */
  approve(userCode: string, by: { readonly userId: string; readonly grantId: string }): Effect.Effect<
    DeviceLogin,
    DeviceLoginNotFound | GrantNotFound | MintRefused | StoreUnavailable
  >
  deny(userCode: string, by: { readonly userId: string }): Effect.Effect<DeviceLogin, DeviceLoginNotFound | StoreUnavailable>
  /** Returns the key once. It is minted by this call, so that the service never stores the key itself. Any text may be a device code. */
  redeem(deviceCode: Redacted.Redacted): Effect.Effect<MintedKey, DeviceLoginRefused | MintRefused | StoreUnavailable>
}>()("@slipway/domain/DeviceLogins") {
  static readonly layer = Layer.effect(
    DeviceLogins,
    Effect.gen(function*() {
      const store = yield* DeviceLoginStore
      const access = yield* AccessStore
      const members = yield* MemberStore
      const ids = yield* Ids
      const keysPerUser = yield* KeysPerUser

      /** The grant, and the expiry of a key that this person would mint in it now. */
      const mayHaveKey = Effect.fnUntraced(function*(
        { grantId, userId }: { readonly userId: string; readonly grantId: string },
        now: DateTime.Utc
      ): Effect.fn.Return<
        { readonly grant: Grant; readonly expiresAt: DateTime.Utc | null },
        GrantNotFound | MintRefused | StoreUnavailable
      > {
        const grant = (yield* access.listGrants).find(({ id, revokedAt }) => id === grantId && revokedAt === null)
        if (grant === undefined) return yield* new GrantNotFound({ grant: grantId })
        const { organizationId } = grant
        const expiresAt = yield* Effect.fromResult(decide({
          by: "person",
          member: (yield* members.members(organizationId)).find(({ user }) => user.id === userId) ?? null,
          organization: (yield* members.organizations).find(({ id }) => id === organizationId) ?? { suspendedAt: now },
          scopes: DEVICE_SCOPES,
          life: DEVICE_KEY_LIFE
        }, now))
        return { grant, expiresAt }
      })
      const orNotFound = Effect.fnUntraced(function*(login: DeviceLogin | null) {
        return login ?? (yield* new DeviceLoginNotFound({}))
      })

      return DeviceLogins.of({
        begin: Effect.fn("DeviceLogins.begin")(function*(machine) {
          const address = (yield* ActingFrom)?.address ?? ""
          for (let i = 0; i < DRAWS; i++) {
            const deviceCode = yield* draw(ids)
            const userCode = yield* ids.random(USER_CODE_ALPHABET, USER_CODE_LENGTH)
            const begun = yield* store.begin(
              { machine, address, createdAt: yield* DateTime.now },
              { device: ids.digest(deviceCode), user: ids.digest(userCode) },
              MOST_OPEN
            )
            if (begun) return { deviceCode: Redacted.make(deviceCode), userCode, life: DEVICE_LOGIN_LIFE, interval: INTERVAL }
          }
          return yield* Effect.die(new Error("every code that was drawn for a device login is taken"))
        }),
        find: Effect.fn("DeviceLogins.find")(function*(userCode) {
          return yield* orNotFound(yield* store.find(ids.digest(userCode), yield* DateTime.now))
        }),
        approve: Effect.fn("DeviceLogins.approve")(function*(userCode, { grantId, userId }) {
          const now = yield* DateTime.now
          // Checked now, so that the person sees the error; the command would only see it later.
          yield* mayHaveKey({ userId, grantId }, now)
          return yield* orNotFound(yield* store.decide(ids.digest(userCode), { _tag: "Approved", userId, grantId }, now))
        }),
        deny: Effect.fn("DeviceLogins.deny")(function*(userCode, { userId }) {
          return yield* orNotFound(yield* store.decide(ids.digest(userCode), { _tag: "Denied", userId }, yield* DateTime.now))
        }),
        redeem: Effect.fn("DeviceLogins.redeem")(function*(deviceCode) {
          const digest = ids.digest(Redacted.value(deviceCode))
          const now = yield* DateTime.now
          const { grantId, machine, userId } = yield* store.ask(digest, now)
          const { expiresAt, grant } = yield* Effect.catchTag(
            mayHaveKey({ userId, grantId }, now),
            "GrantNotFound",
            () => new DeviceLoginRefused({ because: "access_denied" })
          )
          const key = yield* mint(ids, "live")
          const record = yield* store.redeem(
            digest,
            { id: yield* ids.uuid7, grantId, userId, label: machine, scopes: DEVICE_SCOPES, createdAt: now, expiresAt, ...hint(key) },
            ids.digest(Redacted.value(key)),
            keysPerUser
          ).pipe(Effect.provideService(Acting, { _tag: "User", userId }))
          return record === null ? yield* new DeviceLoginRefused({ because: "invalid_grant" }) : { record, grant, key }
        })
      })
    })
  )
}
