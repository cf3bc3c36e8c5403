import { DateTime } from "effect"

/** A time as a parameter of a statement. */
export const iso = (at: DateTime.Utc | null): string | null => at === null ? null : DateTime.formatIso(at)
