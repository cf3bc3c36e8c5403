/** Times as people read them. */

/** `just now`, `5 min ago`, `3 h ago`, `4 days ago`. */
export const ago = (since: string, now: number): string => {
  const minutes = Math.floor((now - Date.parse(since)) / 60_000)
  if (minutes < 1) return "just now"
  if (minutes < 60) return `${minutes} min ago`
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h ago` : `${Math.floor(minutes / 1440)} days ago`
}

/** `in 5 h`, `in 90 days`; `ago` for a time that has passed. */
export const until = (at: string, now: number): string => {
  const hours = Math.ceil((Date.parse(at) - now) / 3_600_000)
  return hours <= 0 ? ago(at, now) : hours < 48 ? `in ${hours} h` : `in ${Math.floor(hours / 24)} days`
}

const UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** The time that `10m`, `2h` or an ISO time means, in milliseconds since 1970; `null`: neither. */
export const since = (text: string, now: number): number | null => {
  const [, count, unit] = /^(\d{1,6})([smhd])$/u.exec(text) ?? []
  if (count !== undefined) return now - Number(count) * UNITS[unit as keyof typeof UNITS]
  const at = /^\d{4}-\d\d-\d\d/u.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(at) ? null : at
}
