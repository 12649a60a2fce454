"""A program that ends with work under way, a recording and buffers, none of them given back."""

# `device` and `bundle` are open. It prints 2.0 where the device computes.
LEFT_OPEN = """
kernel = device.load(bundle, "saxpy", "f32")
x, y = device.upload(np.ones(1000, np.float32)), device.upload(np.ones(1000, np.float32))
with device.record() as recording:
    recording.launch(kernel, x, y, 1.0)
recording.replay()
keep = [device.upload(np.ones(10)) for _ in range(5)]
print(y.numpy()[0])
for _ in range(20):
    recording.replay()
"""
