// Where pictures and sound come from: the camera and the microphone, or a drawn picture and a soft tone where there are
// none. Knows nothing of calls.

const query = new URLSearchParams(location.search);
const drawnOnly = query.get('drawn') === '1';

/** Camera and microphone of this page, with drawn tracks for what is missing. Always one audio and one video track. */
export async function openCamera(name) {
  const real = drawnOnly ? new MediaStream() : await askFor({ audio: true, video: { width: 640, height: 360 } });
  const stream = new MediaStream(real.getTracks());
  if (stream.getVideoTracks().length === 0) stream.addTrack(drawnVideo(name, 'camera'));
  if (stream.getAudioTracks().length === 0) stream.addTrack(tone(name));
  return stream;
}

/** A screen, a window or a drawn stand-in. Null where the user changed their mind. */
export async function openScreen(name) {
  if (drawnOnly || !navigator.mediaDevices?.getDisplayMedia) return new MediaStream([drawnVideo(name, 'screen')]);
  try {
    return await navigator.mediaDevices.getDisplayMedia({ video: true, audio: false });
  } catch (error) {
    if (error.name === 'NotAllowedError') return null;
    return new MediaStream([drawnVideo(name, 'screen')]);
  }
}

export function close(stream) {
  for (const track of stream?.getTracks() ?? []) {
    track.stop();
    track.stopDrawing?.();
  }
}

/** A colour that belongs to a name, as `hsl()`. */
export function colourOf(name, lightness = 45) {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 360;
  return `hsl(${hash} 45% ${lightness}%)`;
}

async function askFor(constraints) {
  if (!navigator.mediaDevices?.getUserMedia) return new MediaStream();
  try {
    return await navigator.mediaDevices.getUserMedia(constraints);
  } catch (error) {
    console.info('no camera or microphone:', error.name);
    // One of the two may still be there.
    if (constraints.audio && constraints.video) {
      const halves = await Promise.all([askFor({ audio: true }), askFor({ video: constraints.video })]);
      return new MediaStream(halves.flatMap((half) => half.getTracks()));
    }
    return new MediaStream();
  }
}

function drawnVideo(name, kind) {
  const canvas = document.createElement('canvas');
  canvas.width = kind === 'screen' ? 960 : 640;
  canvas.height = kind === 'screen' ? 540 : 360;
  const paint = kind === 'screen' ? paintScreen : paintFace;
  const context = canvas.getContext('2d');
  paint(context, name);
  // A timer and not an animation frame: a window in the background still sends a picture.
  const timer = setInterval(() => paint(context, name), 50);
  const [track] = canvas.captureStream(20).getVideoTracks();
  track.stopDrawing = () => clearInterval(timer);
  return track;
}

function paintFace(context, name) {
  const { width, height } = context.canvas;
  const turn = performance.now() / 1400;
  const sky = context.createLinearGradient(0, 0, width, height);
  sky.addColorStop(0, colourOf(name, 38));
  sky.addColorStop(1, colourOf(`${name}~`, 58));
  context.fillStyle = sky;
  context.fillRect(0, 0, width, height);
  context.fillStyle = 'rgb(255 255 255 / 0.16)';
  for (const [phase, size] of [
    [0, 130],
    [2.1, 90],
    [4.2, 60],
  ]) {
    context.beginPath();
    const x = width / 2 + Math.cos(turn + phase) * 190;
    const y = height / 2 + Math.sin((turn + phase) * 1.3) * 90;
    context.arc(x, y, size, 0, Math.PI * 2);
    context.fill();
  }
  context.fillStyle = 'white';
  context.textAlign = 'center';
  context.font = '600 120px system-ui, sans-serif';
  context.fillText((name[0] ?? '?').toUpperCase(), width / 2, height / 2 + 40);
  context.font = '22px system-ui, sans-serif';
  context.fillText(new Date().toLocaleTimeString(), width / 2, height - 28);
}

function paintScreen(context, name) {
  const { width, height } = context.canvas;
  const seconds = performance.now() / 1000;
  context.fillStyle = '#12261d';
  context.fillRect(0, 0, width, height);
  context.fillStyle = '#1d3a2d';
  context.fillRect(0, 0, width, 44);
  context.textAlign = 'left';
  context.font = '20px system-ui, sans-serif';
  context.fillStyle = '#cfe8da';
  context.fillText(`${name}'s screen`, 20, 29);
  for (let bar = 0; bar < 14; bar += 1) {
    const tall = (0.35 + 0.3 * Math.sin(seconds * 1.1 + bar * 0.6) + bar / 40) * (height - 130);
    context.fillStyle = `hsl(${140 + bar * 6} 45% ${38 + bar * 2}%)`;
    context.fillRect(40 + bar * 63, height - 40 - tall, 44, tall);
  }
}

function tone(name) {
  const audio = new AudioContext();
  const out = audio.createMediaStreamDestination();
  const gain = audio.createGain();
  gain.gain.value = 0.015;
  const oscillator = audio.createOscillator();
  oscillator.frequency.value = 180 + (name.length % 7) * 30;
  oscillator.connect(gain).connect(out);
  oscillator.start();
  const [track] = out.stream.getAudioTracks();
  track.stopDrawing = () => audio.close();
  return track;
}
