import { useSyncExternalStore } from 'react';

const MB = 1e6;

/** The progress of the model's download, while it lasts. */
export function DownloadProgress({ progress }) {
  const now = useSyncExternalStore(progress.subscribe, progress.get);
  if (!now) return null;
  const { loaded, total } = now;
  return (
    <label>
      Loading the model: {(loaded / MB).toFixed(0)} of {(total / MB).toFixed(0)} MB <progress value={loaded} max={total} />
    </label>
  );
}
