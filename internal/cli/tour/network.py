import socket, time

begin = time.monotonic()
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5).close()
    print("reached")
except OSError as e:
    print("refused after %.0f ms" % ((time.monotonic() - begin) * 1000))
